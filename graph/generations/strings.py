"""Many short texts in two arrays, so that a file of them can be mapped into memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


def packed(texts: Iterable[str]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where each text begins (one more than there are texts), and the UTF-8 bytes of all."""
    encoded = [text.encode(errors="replace") for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(encoded), np.uint8)


class Texts(Sequence[str]):
    """Texts that lie in two arrays. An entry is decoded when it is asked for."""

    def __init__(self, offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> None:
        self._offsets = offsets
        self._content = content

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        return self.raw(place).decode()

    def raw(self, place: int) -> bytes:
        """The UTF-8 bytes of an entry."""
        return self._content[int(self._offsets[place]) : int(self._offsets[place + 1])].tobytes()

    def place(self, wanted: bytes, first: int, end: int) -> int:
        """Where bytes stand or would stand between two places, where entries ascend by their bytes."""
        low, high = first, end
        while low < high:
            middle = (low + high) // 2
            if self.raw(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low

    def find(self, text: str, first: int, end: int) -> int | None:
        """The place of a text between two places, where entries ascend; None: it is not there."""
        wanted = text.encode(errors="replace")
        found = self.place(wanted, first, end)
        return found if found < end and self.raw(found) == wanted else None
