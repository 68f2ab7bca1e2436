"""How a process lives and dies with the others."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def worker_name(stage: str, process_id: int) -> str:
    """Under what name a worker claims: no other's, also where machines share a ledger and their process ids meet."""
    return f"{stage}-{socket.gethostname()}-{process_id}"


def tied_to_parent() -> Callable[[], None] | None:
    """What a child runs before a program that knows nothing of us (`preexec_fn`), so that it ends with its parent.

    Everything is looked up beforehand: between fork and exec nothing is imported and no lock is taken.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def die_with_parent(with_signal: int = signal.SIGTERM) -> None:
    """Ask the kernel to send this process a signal when its parent dies (Linux; prctl(2)).

    A supervisor that is killed outright then leaves no worker behind.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, with_signal, 0, 0, 0)
    if os.getppid() != parent:  # it died between the two calls
        os.kill(os.getpid(), with_signal)
