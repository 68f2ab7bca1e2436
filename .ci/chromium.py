"""A Chromium that starts with its sandbox on, and what Playwright needs to drive it."""

# ruff: noqa: S603 (it talks to a terminal and runs programs)

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from debian import apt_install, unpack
from process import CACHE, PYTHON, VENV, SetupFailed, is_root, say, succeeds

PLAYWRIGHT_SECONDS = 180
"""How long Playwright's own download (about 170 MB) may take before Debian's Chromium is taken instead."""
PROVE_CHROMIUM = """
import os
from sluice.ingest.browser.browser import Browser
from sluice.ingest.settings import CrawlSettings
browser = Browser(CrawlSettings(chromium_path=os.environ.get("SLUICE_CRAWL__CHROMIUM_PATH") or None))
try:
    print(browser.assert_sandboxed())
finally:
    browser.close()
"""


def browser_driver() -> None:
    """Playwright's driver is a Node program that needs libatomic, which a bare Debian lacks."""
    node = next(VENV.glob("lib/python*/site-packages/playwright/driver/node"), None)
    if node is None:
        raise SetupFailed("Playwright has no driver for this machine; remove .venv and try again")
    if succeeds([str(node), "--version"], quiet=True):
        return
    say("installing libatomic1 for Playwright")
    if apt_install("libatomic1") and succeeds([str(node), "--version"], quiet=True):
        return
    libraries = CACHE / "driver"
    unpack(["libatomic1"], libraries, with_dependencies=False)
    _with_libraries(node, node.rename(node.with_name("node.bin")), libraries)
    if not succeeds([str(node), "--version"], quiet=True):
        raise SetupFailed("Playwright's driver does not start: install libatomic1")


def _with_libraries(launcher: Path, program: Path, home: Path) -> None:
    """A script that starts `program` with every library that was unpacked below `home`."""
    folders = sorted({str(path.parent) for path in home.rglob("*.so*") if path.parent.name != program.parent.name})
    lines = ["#!/bin/sh", f'export LD_LIBRARY_PATH="{":".join(folders)}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"']
    if (home / "etc/fonts").exists():
        lines.append(f'if [ ! -d /etc/fonts ]; then export FONTCONFIG_PATH="{home}/etc/fonts"; fi')
    lines.append(f'exec "{program}" "$@"')
    launcher.write_text("\n".join([*lines, ""]))
    launcher.chmod(0o755)


def chromium(environment_hash: str) -> None:
    """A Chromium that starts with its sandbox on: one that is here, Playwright's, or Debian's.

    What was proven in the environment of that hash is not proven again.
    """
    stamp = CACHE / "chromium-proven"
    proven_in, _, binary = stamp.read_text().partition("\n") if stamp.exists() else ("", "", "")
    if proven_in == environment_hash and Path(binary).exists():
        return
    binary = _proven_chromium() or next(
        (found for get in _ways_to_chromium() if get() and (found := _proven_chromium())), ""
    )
    if not binary:
        succeeds([str(PYTHON), "-c", PROVE_CHROMIUM])  # once more, to show why
        raise SetupFailed(
            "there is no Chromium with a working sandbox: install Debian's chromium and chromium-sandbox, "
            "or name one in SLUICE_CRAWL__CHROMIUM_PATH"
        )
    CACHE.mkdir(exist_ok=True)
    stamp.write_text(f"{environment_hash}\n{binary}")


def _ways_to_chromium() -> list[Callable[[], bool]]:
    # Root's browser runs as another user, to whom a download into root's home is closed.
    if is_root():
        return [_debian_chromium, _playwright_chromium]
    return [_playwright_chromium, _debian_chromium, _unpacked_chromium]


def _proven_chromium() -> str:
    """The path of the Chromium that started with its sandbox on; empty when none did."""
    proof = subprocess.run([str(PYTHON), "-c", PROVE_CHROMIUM], capture_output=True, text=True, check=False)
    return proof.stdout.strip() if proof.returncode == 0 else ""


def _playwright_chromium() -> bool:
    say("fetching Playwright's Chromium")
    playwright = [str(PYTHON), "-m", "playwright"]
    if succeeds([*playwright, "install", "--no-shell", "chromium"], quiet=True, seconds=PLAYWRIGHT_SECONDS):
        if _proven_chromium():
            return True
        succeeds([*playwright, "uninstall"], quiet=True)  # it lacks libraries: it must not shadow one that works
    return False


def _debian_chromium() -> bool:
    say("installing Debian's Chromium")
    return apt_install("chromium", "chromium-sandbox")


def _unpacked_chromium() -> bool:
    """Debian's Chromium and the libraries that this machine lacks, below .cache, with a launcher."""
    say("unpacking Debian's Chromium below .cache")
    home = CACHE / "chromium"
    try:
        unpack(["chromium"], home, with_dependencies=True)
    except SetupFailed as failure:
        say(str(failure))
        return False
    _with_libraries(home / "chromium", home / "usr/lib/chromium/chromium", home)
    return True
