"""Results that are kept for short arguments alone: what a page writes can be of any length, and would stay here."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

MOST_CHARS = 300
"""Of all arguments together: class names, colours and style attributes are shorter."""

T = TypeVar("T")


def kept_if_short(most: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Keep the latest `most` results of a function of strings, of those calls whose arguments are short."""

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        kept = lru_cache(maxsize=most)(function)

        @wraps(function)
        def answer(*texts: str) -> T:
            return kept(*texts) if sum(map(len, texts)) <= MOST_CHARS else function(*texts)

        return answer

    return decorate
