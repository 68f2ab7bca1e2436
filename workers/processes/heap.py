"""How glibc keeps the memory of a process (mallopt(3), malloc_trim(3)). Elsewhere there is nothing to do."""

from __future__ import annotations

import ctypes
import platform

_M_ARENA_MAX = -8
MOST_HEAPS = 2
"""glibc gives every thread a heap of its own, and what was freed in it stays there: a process of forty threads holds
a few times what it needs."""


def limit_heaps() -> None:
    """Let the threads of this process, and of those that it forks, share two heaps. To be called before they start."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, MOST_HEAPS)


def return_free_memory() -> None:
    """Give back what was freed. Loading a model frees some 30 MB, which would be held otherwise."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
