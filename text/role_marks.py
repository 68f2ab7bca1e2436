"""Finds and breaks up the marks by which chat templates part the turns of a conversation (`role_marks.toml`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

from sluice.text.pattern_file import PatternFile

_FILE = PatternFile(Path(__file__).with_name("role_marks.toml"))
_SHAPES = r"<[|｜]/?[\w▁:.-]{2,60}[|｜]>|\[[|｜]/?\w{2,40}[|｜]\]"
_OPENING = re.compile(r"<<|<[|｜]|\[[|｜]|.", re.DOTALL)
_ANY = r"[^<>\n]{0,80}"


def find_marks(lowered: str) -> Iterator[tuple[Literal["role-mark.token", "tool-call.markup"], int, int]]:
    """Yield rule, start and end of each mark in a text in lower case; not those that texts hold for other reasons."""
    if "<" in lowered or "[" in lowered:
        for found in marks_of_turns().finditer(lowered):
            yield "tool-call.markup" if found["tools"] else "role-mark.token", *found.span()


def marks_of_turns() -> re.Pattern[str]:
    """Return the pattern of the marks that `find_marks` finds, in either case."""
    return _tokens("roles", "tools")


def break_marks(text: str) -> str:
    """Return the text with a blank in every mark, so that no tokenizer and no reader takes it for one."""
    if "<" in text or "[" in text:
        text = _tokens("roles", "tools", "plain").sub(_broken, text)
    return _turns().sub(lambda found: f"{found[0]} ", text) if ":" in text else text


def _broken(found: re.Match[str]) -> str:
    opening = _OPENING.match(found[0])
    end = opening.end() if opening else 0
    return f"{found[0][:end]} {found[0][end:]}"


@cache
def _tokens(*kinds: str) -> re.Pattern[str]:
    groups = (f"(?P<{kind}>{'|'.join(map(_as_pattern, _listed(kind)))})" for kind in kinds)
    return re.compile("|".join((*groups, _SHAPES)), re.IGNORECASE)


def _listed(kind: str) -> list[str]:
    return [token for tokens in _FILE.tables[kind].values() for token in re.findall(r"\S+(?: \*>)?", tokens)]


def _as_pattern(token: str) -> str:
    return re.escape(token).replace(r"\*", _ANY)


@cache
def _turns() -> re.Pattern[str]:
    line, capitals, heading = (
        "|".join(_FILE.tables["turns"][kind].split()) for kind in ("line", "capitals", "heading")
    )
    return re.compile(
        rf"^[ \t>*]*(?:{line})(?=\*{{0,2}}:)|(?<![^\s])(?:{capitals})(?=:)|^[ \t>]*#{{1,6}} ?(?:{heading})(?=:)",
        re.MULTILINE,
    )
