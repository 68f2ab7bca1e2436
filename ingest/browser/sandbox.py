"""Proof that Chromium confines what runs the code of web pages, read from the kernel and from Chromium itself.

`require_sandbox` judges every renderer by what the kernel says of it; `adequate` reads the page on which Chromium
judges itself. A browser must pass both before it shows a page. Renderers that appear later are judged as they come.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from sluice.contracts.errors import PolicyRefused
from sluice.ingest.browser.processes import command_line, family, status

SECCOMP_FILTER = "2"
"""The `Seccomp:` mode of /proc/PID/status that means a filter is installed (proc(5))."""

REPORT_URL = "chrome://sandbox"
ADEQUATE = "You are adequately sandboxed."
"""What Chromium's report says when its sandbox is on."""

START_SECONDS = 10.0
"""How long a renderer may take from its first moment to its system call filter, which it loads before any page."""
LOOK_SECONDS = 0.05

SANDBOX_REMEDY = (
    "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1; in a container, a seccomp profile "
    "that permits them), or run workers without root and install chromium-sandbox (its setuid helper)"
)


def require_sandbox(pid: int, *, patience_seconds: float = START_SECONDS) -> None:
    """Refuse the browser below `pid` unless every renderer is confined: not root, a namespace of its own, seccomp.

    Waits for renderers that are only starting.

    Raises:
        PolicyRefused: rule `sandbox`; says which renderer lacks what.
    """
    until = time.monotonic() + patience_seconds
    while weaknesses := _weaknesses_of_all(pid):
        if time.monotonic() >= until:
            raise not_sandboxed("; ".join(weaknesses))
        time.sleep(LOOK_SECONDS)


def not_sandboxed(weakness: str) -> PolicyRefused:
    """The refusal of a browser for `weakness`."""
    return PolicyRefused("sandbox", f"Chromium's sandbox is not on: {weakness}", SANDBOX_REMEDY)


def adequate(report: str) -> bool:
    """Whether the text of `REPORT_URL` says that the sandbox is on."""
    return ADEQUATE in report


def weakness_of(renderer: int, browser: int) -> str | None:
    """What the renderer lacks, against the browser process it belongs to; None where it lacks nothing or has ended."""
    return next(_weaknesses(renderer, namespace_depth(browser)), None)


def namespace_depth(pid: int) -> int:
    """How many process namespaces deep a process lives; 0 where it has ended."""
    return len(status(pid).get("NSpid", "").split())


def is_renderer(command: str) -> bool:
    """Whether the command line is that of a process that runs pages."""
    return "--type=renderer" in command


def browser_process(pid: int) -> int:
    """The browser itself among the processes that `pid` started: the one that is driven, and has no type."""
    for member in family(pid):
        command = command_line(member)
        if "--remote-debugging-pipe" in command and "--type=" not in command and "browser.namespace" not in command:
            return member
    return pid


def _weaknesses_of_all(pid: int) -> list[str]:
    members = family(pid)
    renderers = [member for member in members if is_renderer(command_line(member))]
    if not renderers:
        return ["it has no renderer process of its own"]
    depth = namespace_depth(browser_process(pid))
    return [weakness for renderer in renderers for weakness in _weaknesses(renderer, depth)]


def _weaknesses(renderer: int, browser_depth: int) -> Iterator[str]:
    state = status(renderer)
    if not state or state.get("State", "").startswith("Z"):
        return  # it ended meanwhile
    if "0" in state.get("Uid", "").split():
        yield f"renderer {renderer} runs as root"
    if state.get("Seccomp") != SECCOMP_FILTER:
        yield f"renderer {renderer} has no system call filter"
    if len(state.get("NSpid", "").split()) <= browser_depth:
        yield f"renderer {renderer} shares the browser's process namespace"
