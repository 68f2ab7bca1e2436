"""Records which function called which, and by which expression, while code runs."""

from __future__ import annotations

import dis
import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import NamedTuple

_CACHE = dis.opmap["CACHE"]
_RESUME = dis.opmap["RESUME"]
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_CALLS = frozenset({"PRECALL", "CALL", "CALL_FUNCTION_EX"})
_READS = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


class CallPair(NamedTuple):
    """A function that was called, and the expression that called it: lines `first` to `last` of `caller_file`.

    `way`: `call` as it is written, `read` of a property, `operator` (`+`, `for`, `with`, …: its name is not written),
    or `library`: a function written in C called it, as `sorted` calls its key.
    """

    caller_file: str
    first: int
    last: int
    way: str
    file: str
    qualified_name: str
    line: int


class Recorder:
    """Gathers pairs whose two files are both among `files`."""

    def __init__(self, files: frozenset[str]) -> None:
        self.pairs: set[CallPair] = set()
        self._files = files
        self._in_library: set[FrameType] = set()
        self._positions: dict[CodeType, list[tuple[int | None, ...]]] = {}
        self._seen: set[tuple[CodeType, int, CodeType, bool]] = set()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what this thread and threads begun within do."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "c_call":
            self._in_library.add(frame)
        elif event in ("c_return", "c_exception"):
            self._in_library.discard(frame)
        elif event == "call":
            self._called(frame)

    def _called(self, frame: FrameType) -> None:
        caller, code = frame.f_back, frame.f_code
        if caller is None or code.co_name.startswith("<") or not code.co_flags & inspect.CO_OPTIMIZED:
            return
        if code.co_filename not in self._files or caller.f_code.co_filename not in self._files:
            return
        if (
            code.co_flags & _GENERATORS
            and code.co_code[frame.f_lasti] == _RESUME
            and code.co_code[frame.f_lasti + 1] & 3
        ):
            return  # it goes on after a yield
        by_library = caller in self._in_library
        key = (caller.f_code, caller.f_lasti, code, by_library)
        if key not in self._seen:
            self._seen.add(key)
            self.pairs.add(self._pair(caller, code, by_library))

    def _pair(self, caller: FrameType, code: CodeType, by_library: bool) -> CallPair:
        holder = caller.f_code
        if holder not in self._positions:
            self._positions[holder] = list(holder.co_positions())
        at = caller.f_lasti
        while at and holder.co_code[at] == _CACHE:  # a Python function is entered after the caches of its call
            at -= 2
        first, last, *_ = self._positions[holder][at // 2]
        line = first or caller.f_lineno
        name = dis.opname[holder.co_code[at]]
        way = "library" if by_library else "call" if name in _CALLS else "read" if name in _READS else "operator"
        if way == "call" and code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
            way = "operator"  # as `list(rows)`: a generator is entered when it is asked for its first value
        qualified = code.co_qualname.replace(".<locals>", "")
        return CallPair(holder.co_filename, line, last or line, way, code.co_filename, qualified, code.co_firstlineno)
