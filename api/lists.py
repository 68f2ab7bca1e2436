"""Lists in parts: one envelope, and cursors that go on from the last row that was told.

A cursor holds the position of that row, so a list neither skips nor repeats what was there when it began, and every
part costs the same. It is signed together with the list and its filters: one of another list, with other filters, or
made up, is refused.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any, TypeVar

from fastapi import Query, Request
from pydantic import BeforeValidator

from sluice.api.access import instance_of
from sluice.contracts.api import Page
from sluice.contracts.base import Moment
from sluice.contracts.errors import InvalidInput

Item = TypeVar("Item")

Cursor = Annotated[str | None, Query(max_length=2_000, description="`next_cursor` of the part before")]


def _written_out(text: object) -> object:
    """Refuse what is no date and time of RFC 3339, as the description has it: pydantic reads numbers and dates too."""
    if isinstance(text, str) and text[10:11] not in ("T", "t", " "):
        raise ValueError("give a date and a time with its zone, such as 2026-01-31T12:00:00Z")
    return text


WrittenMoment = Annotated[Moment, BeforeValidator(_written_out)]
"""A point in time in a query string."""
SIGNATURE_BYTES = 12
PAGING = ("limit", "cursor")
position = attrgetter("position")


def whole(items: Sequence[Item]) -> Page[Item]:
    """Return a list that is short by its nature as its only part."""
    return Page(data=tuple(items))


def paged(
    request: Request, limit: int, some: Callable[[int, str | None], Sequence[Item]], position_of: Callable[[Item], str]
) -> Page[Item]:
    """Return the next part of a list, by the request's cursor.

    `some` gets a count and the position after which to begin, None for the beginning; `position_of` is that of an item.

    Raises:
        InvalidInput: the cursor is not one of this list with these filters.
    """
    cursor = request.query_params.get("cursor")
    found = some(limit + 1, None if cursor is None else _read(request, cursor))
    data, rest = found[:limit], found[limit:]
    return Page(data=tuple(data), next_cursor=_written(request, position_of(data[-1])) if rest else None)


def _written(request: Request, position: str) -> str:
    return base64.urlsafe_b64encode(_signature(request, position) + position.encode()).decode().rstrip("=")


def _read(request: Request, cursor: str) -> str:
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        signature, position = raw[:SIGNATURE_BYTES], raw[SIGNATURE_BYTES:].decode()
    except ValueError:
        signature, position = b"", ""
    if not hmac.compare_digest(signature, _signature(request, position)):
        raise InvalidInput("cursor", "is none of this list with these filters", "begin again, without a cursor")
    return position


def _signature(request: Request, position: str) -> bytes:
    filters = sorted(pair for pair in request.query_params.multi_items() if pair[0] not in PAGING)
    signed: Any = [request.url.path, filters, position]
    secret = instance_of(request).secret
    return hmac.digest(secret, json.dumps(signed).encode(), hashlib.sha256)[:SIGNATURE_BYTES]
