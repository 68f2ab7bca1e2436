"""Reads one PDF in a process of its own: the file on standard input, JSON on standard output.

It leaves out what a reader of the page could not see: text in invisible or transparent ink, in letters of less than two
points, in the colour of its background, outside the page, or in a layer that is switched off. A scan keeps the
invisible text under its image: it is what the page shows.

Of our packages it imports `disk.jail` alone, so that it starts quickly and has nothing to lose. The answer is one
object, either `{"pages": […], "title": …, "author": …, "created": …}` or `{"failure": "encrypted" | "memory" |
"characters" | "damaged", "detail": …}`. A file that exceeds its processor time gets none: the kernel ends the process.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

from sluice.disk.jail import Limits, limit

Matrix = Sequence[float]
"""Six numbers (ISO 32000-2, 8.3.3)."""
Colour = tuple[float, float, float] | None
"""Red, green and blue in [0, 1]; None if unknown."""

_WHITE, _BLACK = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)
_SAME_COLOUR = 0.08
"""The largest difference of each of red, green and blue that no reader sees."""
_SMALLEST_POINTS = 2.0
_FAINTEST = 0.05
_MOST_GROUNDS = 500
"""Most painted areas that are remembered; the last ones lie on top."""
_INVISIBLE_INK = (3, 7)
"""Text rendering modes that paint nothing (ISO 32000-2, table 104)."""


class TooMuchText(Exception):
    """The pages hold more characters than allowed."""


def main(cpu_seconds: str, address_space_bytes: str, most_pages: str, most_chars: str) -> None:
    """Read the file within these limits, and answer."""
    body = sys.stdin.buffer.read()
    importlib.import_module("pypdf")  # before the memory limit, so that an import never fails for it
    limit(Limits(int(cpu_seconds), int(address_space_bytes)))
    try:
        answer = read(body, int(most_pages), int(most_chars))
    except MemoryError:
        answer = {"failure": "memory", "detail": ""}
    except TooMuchText:
        answer = {"failure": "characters", "detail": ""}
    except Exception as error:  # noqa: BLE001 - whatever a damaged file makes of the reader, it is the file
        answer = {"failure": "damaged", "detail": f"{type(error).__name__}: {error}"[:300]}
    sys.stdout.write(json.dumps(answer))


def read(body: bytes, most_pages: int, most_chars: int) -> dict[str, Any]:
    """Return the text of every page and the file's facts; only the first `most_pages` are read."""
    from pypdf import PdfReader

    # pypdf logs every oddity of a damaged file; serious errors are raised.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = PdfReader(BytesIO(body))
    if reader.is_encrypted and not reader.decrypt(""):
        return {"failure": "encrypted", "detail": ""}
    layers_off = _layers_off(reader)
    pages: list[str] = []
    chars = 0
    for page, _ in zip(reader.pages, range(most_pages), strict=False):
        pages.append(_visible_text(page, layers_off))
        chars += len(pages[-1])
        if chars > most_chars:
            raise TooMuchText
    facts = reader.metadata
    return {
        "pages": pages,
        "title": facts.title if facts else None,
        "author": facts.author if facts else None,
        "created": _created(facts),
    }


def _visible_text(page: Any, layers_off: frozenset[int]) -> str:
    seen = _Sight(page, layers_off)
    text: str = page.extract_text(visitor_operand_before=seen.before, visitor_operand_after=seen.after)
    if seen.shown or not (seen.images and seen.invisible):
        return text
    scan = _Sight(page, layers_off, is_scan=True)
    return str(page.extract_text(visitor_operand_before=scan.before, visitor_operand_after=scan.after))


@dataclass
class _Ink:
    """The part of the graphics state that decides whether text is visible."""

    mode: int = 0
    points: float = 1.0
    fill: Colour = _BLACK
    space: str = "/DeviceGray"
    alpha: float = 1.0


class _Sight:
    """Follows the drawing of a page and empties the operands of invisible text (pypdf's visitors)."""

    def __init__(self, page: Any, layers_off: frozenset[int], *, is_scan: bool = False) -> None:
        self.shown = self.invisible = self.images = 0
        self._resources = [_dictionary(page, "/Resources")]
        self._layers_off = layers_off
        self._is_scan = is_scan
        self._box = [float(edge) for edge in page.cropbox]
        self._ink = _Ink()
        self._saved: list[_Ink] = []
        self._outside: list[tuple[Matrix, _Ink, list[_Ink]]] = []
        self._base: Matrix = (1, 0, 0, 1, 0, 0)
        self._path: list[tuple[float, float]] = []
        self._grounds: deque[tuple[tuple[float, float, float, float], Colour]] = deque(maxlen=_MOST_GROUNDS)
        self._layers: list[bool] = []

    def before(self, operator: bytes, operands: Any, cm: Matrix, tm: Matrix) -> None:
        """Record the operator's changes; empty its operands if their text is invisible."""
        try:
            self._note(operator, operands, cm, tm)
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError):
            return  # senseless operands change nothing, as in a viewer

    def after(self, operator: bytes, operands: Any, cm: Matrix, tm: Matrix) -> None:
        """Restore the state after a form."""
        del operands, cm, tm
        if operator == b"Do" and self._outside:
            self._base, self._ink, self._saved = self._outside.pop()
            self._resources.pop()

    def _note(self, operator: bytes, operands: Any, cm: Matrix, tm: Matrix) -> None:
        ink = self._ink
        match operator:
            case b"q":
                self._saved.append(replace(ink))
            case b"Q":
                self._ink = self._saved.pop() if self._saved else ink
            case b"Tr":
                ink.mode = int(operands[0])
            case b"Tf":
                ink.points = float(operands[1])
            case b"gs":
                ink.alpha = float(
                    _dictionary(_dictionary(self._resources[-1], "/ExtGState"), operands[0]).get("/ca", ink.alpha)
                )
            case b"g" | b"rg" | b"k":
                ink.fill = _colour([float(one) for one in operands])
            case b"cs":
                ink.space, ink.fill = self._space(operands[0]), _BLACK
            case b"sc" | b"scn":
                numbers = [float(one) for one in operands if isinstance(one, (int, float))]
                is_plain = len(numbers) == len(operands) and (len(numbers) > 1 or ink.space == "/DeviceGray")
                ink.fill = _colour(numbers) if is_plain else None
            case b"re":
                x, y, width, height = map(float, operands)
                self._path += [
                    self._place(cm, *corner)
                    for corner in ((x, y), (x + width, y + height), (x, y + height), (x + width, y))
                ]
            case b"m" | b"l" | b"c" | b"v" | b"y":
                self._path.append(self._place(cm, float(operands[-2]), float(operands[-1])))
            case b"f" | b"F" | b"f*" | b"B" | b"B*" | b"b" | b"b*":
                self._paint(ink.fill if ink.alpha >= 0.5 else None)
            case b"n" | b"S" | b"s":
                self._path.clear()
            case b"sh":
                self._path += [(self._box[0], self._box[1]), (self._box[2], self._box[3])]
                self._paint(None)
            case b"BDC":
                self._layers.append(operands[0] == "/OC" and self._is_off(operands[1]))
            case b"BMC":
                self._layers.append(False)
            case b"EMC":
                if self._layers:
                    self._layers.pop()
            case b"Do" | b"INLINE IMAGE":
                self._draw(operator, operands, cm)
            case b"Tj" | b"TJ" | b"'" | b'"':
                self._show(operands, cm, tm)

    def _place(self, matrix: Matrix, x: float, y: float) -> tuple[float, float]:
        for a, b, c, d, e, f in (matrix, self._base):
            x, y = a * x + c * y + e, b * x + d * y + f
        return x, y

    def _paint(self, colour: Colour) -> None:
        if self._path:
            xs, ys = [x for x, _ in self._path], [y for _, y in self._path]
            self._grounds.append(((min(xs), min(ys), max(xs), max(ys)), colour))
            self._path.clear()

    def _draw(self, operator: bytes, operands: Any, cm: Matrix) -> None:
        drawn = (
            {}
            if operator == b"INLINE IMAGE"
            else _dictionary(_dictionary(self._resources[-1], "/XObject"), operands[0])
        )
        is_form = drawn.get("/Subtype") == "/Form"
        if operator == b"Do":
            self._outside.append((self._base, replace(self._ink), self._saved))
            self._resources.append(_dictionary(drawn, "/Resources") or self._resources[-1])
        if is_form:
            own = [float(one) for one in drawn.get("/Matrix", (1, 0, 0, 1, 0, 0))]
            self._base, self._saved = _product(_product(own, cm), self._base), []
            return
        self.images += 1
        self._path += [self._place(cm, *corner) for corner in ((0.0, 0.0), (1.0, 1.0), (0.0, 1.0), (1.0, 0.0))]
        self._paint(None)

    def _show(self, operands: Any, cm: Matrix, tm: Matrix) -> None:
        strings = (
            [operands[-1]]
            if isinstance(operands[-1], (str, bytes))
            else [one for one in operands[-1] if isinstance(one, (str, bytes))]
        )
        length = sum(map(len, strings))
        if not length:
            return
        if self._is_seen(length, _product(tm, cm)):
            self.shown += 1
            return
        self.invisible += self._ink.mode in _INVISIBLE_INK
        empty: Any = type(operands[-1])()
        operands[-1] = empty

    def _is_seen(self, length: int, text_to_user: Matrix) -> bool:
        ink = self._ink
        matrix = _product(text_to_user, self._base)
        points = abs(ink.points) * max(
            (matrix[2] ** 2 + matrix[3] ** 2) ** 0.5, (matrix[0] ** 2 + matrix[1] ** 2) ** 0.5
        )
        x, y = matrix[4], matrix[5]
        left, bottom, right, top = self._box
        beside = x + length * points < left or x > right or y + points < bottom or y > top
        if any(self._layers) or beside or points < _SMALLEST_POINTS or ink.alpha < _FAINTEST:
            return False
        if ink.mode in _INVISIBLE_INK:
            return self._is_scan
        ground = self._ground(x, y + points / 4)
        strokes = ink.mode % 4 in (1, 2)
        return (
            strokes
            or ink.fill is None
            or ground is None
            or any(abs(a - b) > _SAME_COLOUR for a, b in zip(ink.fill, ground, strict=True))
        )

    def _ground(self, x: float, y: float) -> Colour:
        for (left, bottom, right, top), colour in reversed(self._grounds):
            if left - 1 <= x <= right + 1 and bottom - 1 <= y <= top + 1:
                return colour
        return _WHITE

    def _space(self, name: Any) -> str:
        space = _dictionary(self._resources[-1], "/ColorSpace").get(name, name)
        space = space.get_object() if hasattr(space, "get_object") else space
        if isinstance(space, list) and space[0] == "/ICCBased":
            return "/DeviceGray" if space[1].get_object().get("/N") == 1 else "/ICCBased"
        return str(space[0] if isinstance(space, list) else space).replace("/CalGray", "/DeviceGray")

    def _is_off(self, name: Any) -> bool:
        layer = _dictionary(self._resources[-1], "/Properties").raw_get(name)
        return getattr(layer, "idnum", None) in self._layers_off


def _product(first: Matrix, second: Matrix) -> Matrix:
    a, b, c, d, e, f = first
    g, h, i, j, k, m = second
    return a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + m


def _colour(numbers: Sequence[float]) -> Colour:
    match numbers:
        case [grey]:
            return (grey, grey, grey)
        case [red, green, blue]:
            return (red, green, blue)
        case [cyan, magenta, yellow, black]:
            return ((1 - cyan) * (1 - black), (1 - magenta) * (1 - black), (1 - yellow) * (1 - black))
    return None


def _dictionary(owner: Any, name: str) -> Any:
    found = owner.get(name) if owner is not None else None
    found = found.get_object() if found is not None and hasattr(found, "get_object") else found
    return found if isinstance(found, dict) else {}


def _layers_off(reader: Any) -> frozenset[int]:
    """Return the object numbers of the layers that are off when the file is opened (ISO 32000-2, 8.11.4.3)."""
    default = _dictionary(_dictionary(reader.root_object, "/OCProperties"), "/D")
    off = default.get("/OFF", ())
    off = off.get_object() if hasattr(off, "get_object") else off
    return frozenset(number for one in off if (number := getattr(one, "idnum", None)) is not None)


def _created(facts: Any) -> str | None:
    try:
        moment = facts.creation_date if facts else None
    except ValueError:
        return None
    return moment.isoformat() if moment else None
