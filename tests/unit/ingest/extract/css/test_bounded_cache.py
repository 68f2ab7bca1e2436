"""Results are kept for short arguments alone."""

from __future__ import annotations

from sluice.ingest.extract.css.bounded_cache import MOST_CHARS, kept_if_short


def test_short_arguments_are_asked_about_once_and_long_ones_each_time() -> None:
    asked: list[str] = []

    @kept_if_short(10)
    def joined(one: str, other: str) -> str:
        asked.append(one)
        return one + other

    long = "x" * MOST_CHARS
    assert [joined("a", "b"), joined("a", "b")] == ["ab", "ab"]
    assert [joined(long, "b"), joined(long, "b")] == [f"{long}b", f"{long}b"]
    assert asked == ["a", long, long]
