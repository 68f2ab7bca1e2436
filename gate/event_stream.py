"""A run's events over server-sent events (WHATWG HTML, section 9.2), resumed where the connection broke."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import httpx

from sluice.contracts.errors import Unavailable
from sluice.contracts.event import Event, decode
from sluice.contracts.index import RunFinished
from sluice.gate.problem import parse_error

_LINE_END = re.compile("\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Frame:
    """One dispatched message of a stream: the last id seen, and the data lines joined."""

    id: str | None
    data: str


class Stream:
    """The events of one run, up to and with its `RunFinished`.

    Each connection names the last id received in `Last-Event-ID`. When a connection ends early and has
    brought something, another is opened; when it has brought nothing, the stream gives up. A stream that is resumed
    behind the last event of a finished run is empty.

    Iterating raises:
        Unavailable: the server went away, or ended the stream with nothing new and the run unfinished.
        SluiceError: whatever the server answered instead of a stream.
    """

    def __init__(self, http: httpx.Client, path: str, after: str | None = None) -> None:
        self._http = http
        self._path = path
        self._last_id = after

    def __iter__(self) -> Iterator[Event]:
        finished, may_be_over = False, self._last_id is not None
        while not finished:
            brought = False
            try:
                for event in self._connection():
                    brought = True
                    yield event
                    finished = isinstance(event.body, RunFinished)
                    if finished:
                        return
            except httpx.TransportError as error:
                if not brought:
                    raise Unavailable(f"{self._path}: {error}") from error
            if not brought and may_be_over:
                return
            if not brought:
                raise Unavailable(f"{self._path}: the stream ended before the run was finished")
            may_be_over = False

    def _connection(self) -> Iterator[Event]:
        headers = {"Accept": "text/event-stream"}
        if self._last_id is not None:
            headers["Last-Event-ID"] = self._last_id
        with self._http.stream("GET", self._path, headers=headers) as response:
            if not response.is_success:
                response.read()
                raise parse_error(response)
            for frame in parse_frames(split_lines(response.iter_text())):
                event = decode(frame.data)
                self._last_id = frame.id
                yield event


def split_lines(chunks: Iterable[str]) -> Iterator[str]:
    """The lines of a stream: they end at CR LF, LF or CR alone. Others that Unicode knows stand inside JSON texts."""
    rest = ""
    for chunk in chunks:
        text = rest + chunk
        held = text.endswith("\r")  # it may be the first half of a CR LF
        *complete, rest = _LINE_END.split(text[:-1] if held else text)
        rest += "\r" if held else ""
        yield from complete


def parse_frames(lines: Iterable[str]) -> Iterator[Frame]:
    """The messages in the lines of an event stream. Comments, and a message cut off by the end, are dropped."""
    last_id: str | None = None
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                yield Frame(last_id, "\n".join(data))
            data = []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "id" and "\0" not in value:
            last_id = value
