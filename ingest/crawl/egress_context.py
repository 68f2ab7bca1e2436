"""The egress grant of the work in hand, for what is fetched on its behalf: robots.txt for a page, a search's calls.

Robots rules and search providers are built once and serve every crawl and search. What they fetch belongs to the work
in hand, so they ask here which egress grant that has; what is refused to them is then recorded with that work's run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_in_hand: ContextVar[str | None] = ContextVar("egress_grant_url", default=None)


@contextmanager
def egress_context(proxy_url: str) -> Iterator[None]:
    """What is fetched within the block, by this thread, is on the account of `proxy_url`."""
    before = _in_hand.set(proxy_url)
    try:
        yield
    finally:
        _in_hand.reset(before)


def current_egress_grant() -> str | None:
    """The proxy's address with the account of the work in hand; None where it has none of its own."""
    return _in_hand.get()
