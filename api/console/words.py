"""Moments, spans and amounts as pages show them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"))
"""Seconds of each unit of a span, and its name."""


def clock(moment: datetime) -> str:
    """Return a moment of today as `14:02:11`, another with its day."""
    told = moment.astimezone(UTC)
    return told.strftime("%H:%M:%S" if told.date() == datetime.now(UTC).date() else "%Y-%m-%d %H:%M:%S")


def ago(moment: datetime) -> str:
    """Return how long ago a moment is, or in how long it comes."""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"


def span(seconds: float) -> str:
    """Return a span of time in one or two units: `4.2 s`, `3 min`, `4 h 12 min`."""
    if seconds < 60:
        return f"{1e3 * seconds:.0f} ms" if 0 < seconds < 1 else f"{seconds:.0f} s"
    for place, (length, unit) in enumerate(STEPS):
        if seconds >= length:
            whole, rest = divmod(seconds, length)
            finer = STEPS[place + 1 :][:1]
            more = "".join(f" {rest // per:.0f} {name}" for per, name in finer if rest >= per)
            return f"{whole:.0f} {unit}{more}"
    return ""


def milliseconds(amount: float) -> str:
    """Return a span that is given in milliseconds: `18 ms`, `3.11 s`."""
    return (
        f"{amount:.0f} ms" if amount < 1_000 else f"{amount / 1_000:.2f} s" if amount < 60_000 else span(amount / 1e3)
    )


def number(amount: float) -> str:
    """Return a number with commas, and at most three digits of a fraction: `12,345`, `.31`."""
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.3g}" if abs(amount) < 1_000 else f"{amount:,.0f}"


def named(text: object) -> object:
    """Return what a link is called: a text of spaces alone would be a link without a name."""
    return text if not isinstance(text, str) or text.strip() else "(no name)"


def in_bytes(amount: float) -> str:
    """Return a size in the unit that keeps it short: `1.4 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1_000:
            return f"{amount:.3g} {unit}"
        amount /= 1_000
    return f"{amount:,.3g} TB"


CITED = re.compile(r"\[(\d{1,4})\]")


def cited(text: str) -> list[tuple[str, int | None]]:
    """Return a text in pieces: each is text, or the number of a citation."""
    pieces = CITED.split(text)
    return [(piece, int(piece) if place % 2 else None) for place, piece in enumerate(pieces) if piece]


def is_web(address: object) -> bool:
    """Return whether an address leads to a site: by http or https, and nothing else."""
    text = str(address or "")
    try:
        return text.isprintable() and urlsplit(text).scheme in ("http", "https") and bool(urlsplit(text).hostname)
    except ValueError:
        return False


FILTERS: dict[str, Callable[..., Any]] = {
    "ago": ago,
    "bytes": in_bytes,
    "cited": cited,
    "clock": clock,
    "is_web": is_web,
    "milliseconds": milliseconds,
    "named": named,
    "number": number,
    "span": span,
}
"""What templates call, by name."""
