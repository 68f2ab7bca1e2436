"""A cache holds what was used lately, whole, and no more than its bytes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from sluice.disk.cache import MOST_IDLE_SECONDS, FileCache


def files(cache: FileCache) -> set[str]:
    return {str(path.relative_to(cache.folder)) for path in cache.folder.rglob("*") if path.is_file()}


def used(cache: FileCache, name: str, seconds_ago: float) -> None:
    os.utime(cache.folder / name, (time.time() - seconds_ago, 0))


def test_what_is_put_is_read_and_tells_when_it_was_put(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "cache")
    assert (cache.get("a/one"), cache.put_at("a/one")) == (None, 0)
    cache.put("a/one", b"1", put_at=1_000)
    assert (cache.get("a/one"), cache.put_at("a/one")) == (b"1", 1_000)
    cache.remove("a/one")
    cache.remove("a/one")
    assert cache.get("a/one") is None


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, most_bytes=1_000)
    for number in range(9):
        cache.put(f"a/{number}", bytes(100))
        used(cache, f"a/{number}", 100 - number)
    cache.get("a/0")
    cache.put("a/9", bytes(150))
    assert files(cache) == {"a/0", *(f"a/{number}" for number in range(3, 10))}  # 850 of 900 bytes are left


def test_what_nobody_used_for_an_hour_goes(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    for name in ("a/old", "a/new"):
        cache.put(name, b"1")
    used(cache, "a/old", MOST_IDLE_SECONDS + 1)
    cache.sweep()
    assert files(cache) == {"a/new"}


def test_a_disk_that_refuses_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = FileCache(tmp_path / "file")
    cache.put("a/one", b"1")
    assert cache.get("a/one") is None
