"""A cache for short arguments only: a page's text can have any length, and the cache would retain it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

MOST_CHARS = 300
"""Most characters of all arguments together: class names, colours and style attributes are shorter."""

T = TypeVar("T")


def kept_if_short(most: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Cache the latest `most` results of a function of strings, for calls with short arguments."""

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        kept = lru_cache(maxsize=most)(function)

        @wraps(function)
        def answer(*texts: str) -> T:
            return kept(*texts) if sum(map(len, texts)) <= MOST_CHARS else function(*texts)

        return answer

    return decorate
