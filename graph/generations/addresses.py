"""Which documents are at an address or a path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

PATH = "path:"


class Addresses:
    """Documents by the addresses that they answer to."""

    def __init__(self, resolving: Iterable[tuple[str, int]], paths: Sequence[str | None]) -> None:
        """`resolving` are keys of URL nodes, each with the document that is there (its place in the order of ids).

        `paths` are those of the documents, in order.
        """
        self._at: dict[str, list[int]] = {}
        for key, document in resolving:
            held = self._at.setdefault(key, [])
            if document not in held[-64:]:
                held.append(document)
        self._paths = paths

    def resolve(self, key: str, document: int) -> tuple[int, ...]:
        """The documents that `key` can mean where `document` links to it; of several paths those nearest to its own."""
        found = self._at.get(key, [])
        if len(found) < 2 or not key.startswith(PATH):
            return tuple(found)
        own = self._paths[document] or ""
        shared = [_shared(own, self._paths[place] or "") for place in found]
        most = max(shared)
        return tuple(place for place, share in zip(found, shared, strict=True) if share == most)


def _shared(one: str, other: str) -> int:
    count = 0
    for mine, theirs in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if mine != theirs:
            break
        count += 1
    return count
