"""Reads errors from a tool's output by a table of problem matchers, as editors and CI systems do (`matchers.toml`).

A matcher describes the first line of an error and, if needed, the lines below: places, a message, the end. Its patterns
mark these parts by the groups `path`, `line`, `column`, `message` and `name`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from typing import Any, Literal

from sluice.contracts.memory.model import ErrorType
from sluice.memory.extraction.errors.output import TABLE, Output

MAX_LINES_READ = 40_000
"""Most lines below first lines that one matcher reads of one output; it bounds the work on hostile output."""


def type_of(message: str, otherwise: ErrorType, *, parsing: bool = True) -> ErrorType:
    """Return the type of an error: `otherwise`, its tool's usual type, unless the message is more specific.

    Code that does not parse is `Compile` whichever tool met it (without `parsing`, a syntax error is one of data). A
    program's own error is `Permission` where the system refused it, and `Logic` where an assertion broke.
    """
    if parsing and TABLE["syntax"].match(message):
        return ErrorType.COMPILE
    if otherwise is ErrorType.RUNTIME and TABLE["permission"].search(message):
        return ErrorType.PERMISSION
    if otherwise is ErrorType.RUNTIME and TABLE["assertion"].match(message):
        return ErrorType.LOGIC
    return otherwise


@dataclass(frozen=True, slots=True)
class Mention:
    """An error that one matcher found in the lines [first, last] of an output. `path` is as printed.

    `follows`: it only says that something failed (`make: *** … Error 1`), so it counts only where nothing else does.
    `name` is that of a failing test; `column` distinguishes two errors of one line.
    """

    message: str
    tool: str
    error_type: ErrorType
    first: int
    last: int
    path: str | None = None
    line: int | None = None
    name: str = ""
    column: str = ""
    follows: bool = False
    program: str = ""
    """Program that reports this error of itself."""
    unsure: bool = False
    """Counts only if another matcher also reports a failing test of this name."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """One row of the table; `matchers.toml` documents each field."""

    tools: tuple[str, ...]
    type: ErrorType
    marks: tuple[str, ...]
    begin: str
    programs: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    anywhere: bool = False
    follows: bool = False
    alone: bool = False
    once: bool = False
    after: str | None = None
    stop: str | None = None
    file: str | None = None
    lines: int = 0
    place: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    end: str | None = None
    mute: str | None = None
    more: str | None = None
    unless: str | None = None
    choose: Literal["first", "last"] = "first"
    tell: Literal["first", "last"] = "first"
    closes: bool = False
    closes_at: str | None = None
    runs_on: bool = False
    runtime: bool = False
    unsure: bool = False
    requires: frozenset[Literal["place", "said", "end"]] = frozenset()

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Matcher:
        """Build the matcher of a row of the file. Raises `TypeError` for an unknown field."""
        made: dict[str, Any] = {name: _filled_in(value) for name, value in row.items()}
        for name in ("programs", "needs", "requires"):
            made[name] = frozenset(made.get(name, ()))
        return cls(**made | {"type": ErrorType(row["type"])})

    def read(self, output: Output) -> Iterator[Mention]:
        """Yield the errors of this shape, in order, from the lines that no matcher before it took."""
        if self.needs and not self.needs & output.words:
            return
        block = _Block(self, output)
        reading, file, number = self.after is None, None, -1
        while (number := number + 1) < len(output.lines):
            line = output.lines[number]
            if not line or output.taken[number]:
                continue
            if not reading:
                reading = bool(_match(self.after, line))
            elif _match(self.stop, line):
                return
            elif any(mark in line for mark in self.marks) and (found := _match(self.begin, line)):
                if mention := block.read(number, found, file):
                    yield mention
                    number = mention.last
                    if self.once:
                        return
            elif named := _match(self.file, line):
                file = named["path"]


@dataclass(slots=True)
class _Block:
    """Reader of the lines below an error's first line."""

    matcher: Matcher
    output: Output
    read_lines: int = 0

    def read(self, number: int, found: re.Match[str], file: str | None) -> Mention | None:
        """Return the error that begins in line `number`; None if the lines below lack what the matcher requires."""
        matcher, groups = self.matcher, found.groupdict()
        seen = _Seen(groups.get("prefix") or "", number)
        seen.add_place(found, file if groups.get("line") else None)
        if not self._below(number, seen):
            return None
        if not matcher.requires <= seen.has():
            return None
        path, line = self._chosen(seen, file)
        name = (groups.get("name") or "").strip()
        said = seen.said or [groups.get("message") or ""]
        text = next(
            (one for one in said if TABLE["syntax"].match(one)), said[0 if matcher.tell == "first" else -1]
        ).strip()
        tool = next((one for one in matcher.tools if one in self.output.words), matcher.tools[0])
        kind = type_of(text or found[0], matcher.type, parsing=not matcher.runtime)
        if name and kind is not ErrorType.COMPILE and name not in text:
            text = f"{name}: {text}" if text else f"{name} failed"
        message = text or found[0].strip()
        return Mention(
            message, tool, kind, number, seen.last, path, line, name,
            column=groups.get("column") or "", follows=matcher.follows, program=groups.get("program") or "",
            unsure=matcher.unsure,
        )  # fmt: skip

    def _below(self, number: int, seen: _Seen) -> bool:
        """Read the lines below; return False if one of them says that this is no error of its own."""
        matcher, closed = self.matcher, False
        limit = min(number + 1 + matcher.lines, len(self.output.lines), number + 1 + MAX_LINES_READ - self.read_lines)
        muted = continued = False
        for ahead in range(number + 1, limit):
            self.read_lines += 1
            whole = self.output.lines[ahead]
            line = whole.removeprefix(seen.prefix)
            if closed:
                if _match(matcher.more, line):
                    closed, continued = False, True
                elif line.strip():
                    break
                continue
            if _match(matcher.end, line):
                seen.ended = True
                break
            if not continued and not matcher.runs_on and _match(matcher.begin, whole):
                break
            if _match(matcher.unless, line):
                return False
            muted = muted or bool(_match(matcher.mute, line))
            if muted or seen.take(matcher, line):
                seen.last = ahead
                closed = matcher.closes and bool(seen.said) and seen.told_now
                continued = continued and not closed
            elif matcher.end is not None:
                seen.last = ahead
            if _match(matcher.closes_at, line):
                break
        return True

    def _chosen(self, seen: _Seen, file: str | None) -> tuple[str | None, int | None]:
        """Return the first or last place inside the project, else the first or last place named at all."""
        order = seen.places if self.matcher.choose == "first" else seen.places[::-1]
        order = sorted(order, key=lambda place: place[1] is None)
        inside = (one for one in order if self.output.project.holds(one[0]))
        fallback = order[0] if order and not file else (file, None)
        return next(inside, fallback)


@dataclass(slots=True)
class _Seen:
    prefix: str
    last: int
    places: list[tuple[str, int | None]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    told_now: bool = False
    ended: bool = False

    def has(self) -> set[str]:
        """Return the parts found, of those that a matcher may require."""
        return {name for name, there in (("place", self.places), ("said", self.said), ("end", self.ended)) if there}

    def add_place(self, found: re.Match[str], otherwise: str | None = None) -> None:
        """Keep the place that a line names; a line number alone belongs to the file `otherwise`."""
        groups = found.groupdict()
        if path := groups.get("path") or otherwise:
            self.places.append((path, int(groups["line"]) if groups.get("line") else None))

    def take(self, matcher: Matcher, line: str) -> bool:
        """Keep the place or message that a line gives; return whether it gives one."""
        self.told_now = False
        placed = next((found for pattern in matcher.place if (found := _match(pattern, line))), None)
        if placed is not None:
            self.add_place(placed)
            if message := placed.groupdict().get("message"):
                self.said.append(message)
            return True
        told = next((found for pattern in matcher.said if (found := _match(pattern, line))), None)
        if told is not None:
            self.told_now = True
            self.said.append(told["message"].strip())
        return told is not None


@cache
def matchers() -> tuple[Matcher, ...]:
    """Return the table, in the order in which its rows take their lines."""
    return tuple(map(Matcher.of, TABLE.tables["matcher"]))


def _filled_in(value: Any) -> Any:
    """Return a field of a row with the shared patterns in place of their names (`@path@`)."""
    if isinstance(value, str):
        return TABLE.text(value)
    return tuple(map(TABLE.text, value)) if isinstance(value, list) else value


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _match(pattern: str | None, line: str) -> re.Match[str] | None:
    return None if pattern is None else _compiled(pattern).match(line)


def each_once(mentions: Sequence[Mention], told_by: Sequence[int]) -> list[Mention]:
    """Drop mentions that repeat a failing test: a test's block and its line in the summary are one failure.

    `told_by` has the number of each mention's matcher. A block that lost its head has no name: it gets that of a
    summary line that no other block has, of the same message if there is one. A repeated mention gives its file if the
    first named none. A test that only holds failing ones (`TestA` of `TestA/b`) is dropped.
    """
    counts: dict[tuple[str, str], Counter[int]] = {}
    known: dict[tuple[str, str], list[int]] = {}
    kept: list[Mention] = []
    for mention, row in zip(mentions, told_by, strict=True):
        if not mention.name:
            kept.append(mention)
            continue
        key = (mention.tool, (mention.name.partition("::")[2] or mention.name).replace("::", "."))
        count, places = counts.setdefault(key, Counter()), known.setdefault(key, [])
        count[row] += 1
        if count[row] > len(places):
            headless = [at for at, one in enumerate(kept) if one.tool == mention.tool and not one.name]
            said = mention.message.partition(": ")[2].removesuffix("...")
            same = [at for at in headless if said and said in kept[at].message] or headless
            if not same:
                places.append(len(kept))
                kept.append(mention)
                continue
            places.append(same[0])
        first = kept[places[count[row] - 1]]
        named = replace(first, name=first.name or mention.name, unsure=False)
        kept[places[count[row] - 1]] = (
            named if first.path is not None else replace(named, path=mention.path, line=mention.line)
        )
    names = {parent for one in kept for parent in accumulate(one.name.split("/")[:-1], "{}/{}".format)}
    return [one for one in kept if not one.unsure and (one.path or one.name not in names)]
