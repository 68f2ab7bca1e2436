"""Runs each broken program and records what the tool printed: `python -m bench.memory.errors [tool …]`.

Needs the tools on the PATH (see README.md beside this file) and an empty folder, `/project` by default, so that the
recorded outputs name no path of this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path

from bench.memory.errors.programs import FOLDER, Program, Run, read_programs

RECORDED = Path("tests/golden/memory/errors")
TIMEOUT_SECONDS = 120
MAX_OUTPUT_CHARACTERS = 24_000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("tools", nargs="*", help="only these (names of files in programs/)")
    arguments.add_argument("--folder", type=Path, default=Path("/project"))
    arguments.add_argument("--node-modules", type=Path, help="where typescript, eslint, jest and mocha are installed")
    arguments.add_argument(
        "--scrub", action="append", default=[], help="PATH=NEUTRAL: what stands for a path of this machine"
    )
    given = arguments.parse_args()
    scrubs = [tuple(one.split("=", 1)) for one in given.scrub]
    for path in sorted(FOLDER.glob("*.txt")):
        if given.tools and path.stem not in given.tools:
            continue
        lines = [
            json.dumps(
                record(program, run, given.folder, given.node_modules, scrubs), ensure_ascii=True, sort_keys=True
            )
            for program in read_programs(path)
            for run in program.runs
        ]
        RECORDED.mkdir(parents=True, exist_ok=True)
        (RECORDED / f"{path.stem}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{path.stem}: {len(lines)} outputs")


def record(
    program: Program, run: Run, folder: Path, modules: Path | None, scrubs: list[tuple[str, ...]]
) -> dict[str, object]:
    """What one run printed, with what it must tell."""
    write(program, folder, modules)
    done = subprocess.run(
        ["bash", "-c", run.command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=TIMEOUT_SECONDS, check=False, env=environment(),
    )  # fmt: skip
    output = done.stdout.decode("utf-8", "backslashreplace")
    for found, neutral in scrubs:
        output = output.replace(found, neutral)
    if len(output) > MAX_OUTPUT_CHARACTERS:
        output = output[: MAX_OUTPUT_CHARACTERS // 2] + "\n...\n" + output[-MAX_OUTPUT_CHARACTERS // 2 :]
    if run.crlf:
        output = output.replace("\n", "\r\n")
    return {
        "tool": program.tool,
        "program": program.name,
        "root": "/project",
        "ran": run.command,
        "command": run.command if run.command_known else None,
        "exit_code": (done.returncode if done.returncode >= 0 else 128 - done.returncode) if run.exit_known else None,
        "output": output.replace(str(folder), "/project"),
        "expected": run.expected,
    }


def write(program: Program, folder: Path, modules: Path | None) -> None:
    """The program's files in an empty folder."""
    if folder.exists():
        shutil.rmtree(folder)
    for name, body in program.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")
    if modules is not None and any(
        name.endswith((".js", ".mjs", ".ts", "package.json", "tsconfig.json")) for name in program.files
    ):
        (folder / "node_modules").symlink_to(modules)


def environment() -> dict[str, str]:
    """Without what would change what a tool prints."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "JAVA_HOME", "RUSTUP_HOME", "CARGO_HOME")
        if name in os.environ
    }
    return {
        **kept,
        "LANG": "C.UTF-8",
        "COLUMNS": "80",
        "USER": "dev",
        "GOPROXY": "off",
        "GOFLAGS": "-mod=mod",
        "npm_config_userconfig": "/dev/null",
    }


if __name__ == "__main__":
    main()
