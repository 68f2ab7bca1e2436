"""Debian's packages: installed where that is allowed, else unpacked below .cache, which needs no rights."""

from __future__ import annotations

import shutil
from pathlib import Path

from process import CACHE, SetupFailed, is_root, run, say, succeeds

APT_SECONDS = 900


def apt_install(*packages: str) -> bool:
    """Install packages as root, or with sudo where it asks no password."""
    prefix = [] if is_root() else ["sudo", "-n"]
    if shutil.which("apt-get") is None or (prefix and shutil.which("sudo") is None):
        return False
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]
    succeeds([*apt, "update"], quiet=True, seconds=APT_SECONDS)  # what is listed already may do
    return succeeds([*apt, "install", "-y", "--no-install-recommends", *packages], quiet=True, seconds=APT_SECONDS)


def unpack(packages: list[str], target: Path, *, with_dependencies: bool) -> None:
    """Fetch packages and unpack them into `target`, touching nothing of the system and needing no rights.

    apt gets lists, cache and state of its own, so it works without a filled /var/lib/apt, too.
    """
    state = CACHE / "apt"
    archives = state / "cache" / "archives"
    for folder in (state / "lists" / "partial", archives / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    apt = _private_apt(state)
    run([*apt, "update"], "Debian's package lists could not be fetched", seconds=APT_SECONDS)
    if with_dependencies:
        fetch = [*apt, "install", "-y", "--download-only", "--no-install-recommends", *packages]
        run(fetch, f"{packages[0]} could not be fetched", seconds=APT_SECONDS)
    else:
        run([*apt, "download", *packages], f"{packages[0]} could not be fetched", folder=archives)
    target.mkdir(parents=True, exist_ok=True)
    for archive in sorted(archives.glob("*.deb")):
        run(["dpkg", "-x", str(archive), str(target)], f"{archive.name} could not be unpacked")
    shutil.rmtree(state)


def _private_apt(state: Path) -> list[str]:
    if shutil.which("apt-get") is None:
        raise SetupFailed("this is not a Debian: install python3-venv, pip and Chromium by hand")
    options = {
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": state / "cache",
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "",
    }
    return ["apt-get", "-qq", *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]


def postgres() -> None:
    """PostgreSQL's server programs, for root; without them the tests that need them say so and skip."""
    if any(Path("/usr/lib/postgresql").glob("*/bin/postgres")) or shutil.which("postgres"):
        return
    if not is_root():
        say("no PostgreSQL here: tests on it will be skipped")
        return
    say("installing PostgreSQL")
    if not apt_install("postgresql"):
        say("PostgreSQL could not be installed: tests on it will be skipped")


def prometheus() -> None:
    """Prometheus and promtool, unpacked: nothing is served. Without them the tests of alerts say so and skip."""
    home = CACHE / "prometheus"
    if (home / "usr/bin/promtool").exists() or shutil.which("promtool"):
        return
    say("unpacking Prometheus below .cache")
    try:
        unpack(["prometheus"], home, with_dependencies=False)
    except SetupFailed as failure:
        say(f"{failure}: tests of alerts and dashboards will be skipped")
