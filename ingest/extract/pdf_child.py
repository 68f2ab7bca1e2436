"""Reads one PDF, in the child process that `child` has locked up.

Text counts where a reader of the page can see it, and the picture of the page tells: a page is painted with its texts
and without them, and letters are kept where the two pictures differ. So it does not matter how text was hidden: by its
colour, a clip, a picture above it, a layer that is switched off, a place beside the page. A scan keeps the invisible
text that lies on the ink of its picture.

It reads nothing but the page's content: no annotations, no fields of forms, no replacement texts (`ActualText`). The
answer is `{"pages": […], "title": …, "author": …, "created": …}`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sluice.ingest.extract.child import Encrypted, TooMuchText

HAS_SOCKETPAIR = False
_SCALE = 2.0
"""Pixels to a point: letters of two points are still four pixels high."""
_MOST_PIXELS = 4_000_000
_CONTRAST = 16
"""The least difference, of 255 steps of grey, that a reader sees."""
_LEAST_INK, _MOST_INK = 0.04, 0.9
"""Share of the boxes of its letters that a text paints. Letters take .1 to .6; more is a blot."""
_SMALLEST_POINTS = 2.0
_MOST_LAYERS = 4
"""Most texts above one another that are told apart, each by a picture of its own; further ones count as hidden."""
_OVERLAP = 0.2
_MOST_PILED = 2.5
"""The area of the letters' boxes against the area that they cover together; more is unreadable."""
_THIN = 3
"""A dash or bar of fewer pixels may be painted beside its box."""
_MOST_NESTED = 10
_LAST_LATIN = "\u024f"
"""Other scripts have no letters here if the file brings no font: `o` is painted for each, to see whether it shows."""
_INVISIBLE_INK = (3, 7)
"""Text rendering modes that paint nothing (ISO 32000-2, table 104)."""
_HYPHENS = ("\x02", "\ufffe")
"""What the library has for a hyphen at a line's end."""

Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels."""


def load() -> None:
    """Load all that reading needs, before files are closed and memory is limited: read a page without text."""
    import pypdfium2 as pdfium

    with closing(pdfium.PdfDocument.new()) as document:
        with closing(document.new_page(9, 9)) as page, closing(_Page(page.raw)) as drawn:
            drawn.visible_text()
        document.get_metadata_dict()


def read(body: bytes, most_pages: str, most_chars: str) -> dict[str, Any]:
    """Return the text of every page and the file's facts; only the first `most_pages` are read."""
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(body)
    except pdfium.PdfiumError as error:
        if error.err_code == pdfium.raw.FPDF_ERR_PASSWORD:
            raise Encrypted from error
        raise
    pages: list[str] = []
    chars = 0
    for number in range(min(len(document), int(most_pages))):
        with closing(document[number]) as page, closing(_Page(page.raw)) as drawn:
            chars += len(drawn.letters)
            if chars > int(most_chars):
                raise TooMuchText
            pages.append(drawn.visible_text())
    facts = document.get_metadata_dict()
    return {
        "pages": pages,
        "title": facts.get("Title"),
        "author": facts.get("Author"),
        "created": facts.get("CreationDate"),
    }


@dataclass
class _Run:
    """A text object: the letters that one operator shows, all in one state."""

    drawn: Any
    letters: list[int] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    is_small: bool = False
    is_stood_for: bool = False
    """Whether other letters are painted in its place, of which only the whole is compared."""

    @property
    def extent(self) -> Box:
        lefts, tops, rights, bottoms = zip(*self.boxes, strict=True)
        return min(lefts), min(tops), max(rights), max(bottoms)


class _Page:
    """One page, its letters in reading order, and the text objects that paint them."""

    def __init__(self, page: Any) -> None:
        import pypdfium2.raw as pdfium

        self._pdfium, self._page = pdfium, page
        width, height = pdfium.FPDF_GetPageWidthF(page), pdfium.FPDF_GetPageHeightF(page)
        self._scale = min(_SCALE, (_MOST_PIXELS / max(1.0, width * height)) ** 0.5)
        self._size = max(1, int(width * self._scale)), max(1, int(height * self._scale))
        self._to_pixels = self._affine()
        for one in self._text_objects():
            self._forget_replacement(one)
        self._text = pdfium.FPDFText_LoadPage(page)
        self.letters = [
            chr(pdfium.FPDFText_GetUnicode(self._text, place))
            for place in range(max(0, pdfium.FPDFText_CountChars(self._text)))
        ]
        self._runs = list(self._read_runs())

    def close(self) -> None:
        """Give its memory back."""
        self._pdfium.FPDFText_ClosePage(self._text)

    def visible_text(self) -> str:
        """Return what a reader of the page can see; of a scan, the text of its picture."""
        layers = self._layers()
        everything = frozenset(range(len(layers)))

        @cache
        def picture(without: frozenset[int]) -> Any:
            return self._picture([run for number in without for run in layers[number]])

        full, shown = picture(frozenset()), set[int]()
        for number, layer in enumerate(layers):
            one = frozenset((number,))
            # It shows among all texts, and by itself: white letters that cut into black ones do only the former.
            changed = _differ(full, picture(one)) & _differ(picture(everything - one), picture(everything))
            for run in layer:
                shown.update(_seen(run, changed))
        if not shown:
            shown = self._scanned(full)
        is_kept = [letter.isspace() or place in shown for place, letter in enumerate(self.letters)]
        text = "".join(letter for letter, kept in zip(self.letters, is_kept, strict=True) if kept)
        for hyphen in _HYPHENS:
            text = text.replace(hyphen, "-\n")
        return "\n".join(line.strip() for line in text.splitlines() if line.strip())

    def _text_objects(self) -> Iterator[Any]:
        """Yield the text objects of the page and of the forms in it."""
        pdfium = self._pdfium
        groups: list[tuple[Any, int]] = [(None, 0)]
        while groups:
            form, depth = groups.pop()
            count = pdfium.FPDFFormObj_CountObjects(form) if form else pdfium.FPDFPage_CountObjects(self._page)
            for place in range(count):
                one = (
                    pdfium.FPDFFormObj_GetObject(form, place) if form else pdfium.FPDFPage_GetObject(self._page, place)
                )
                kind = pdfium.FPDFPageObj_GetType(one)
                if kind == pdfium.FPDF_PAGEOBJ_TEXT:
                    yield one
                elif kind == pdfium.FPDF_PAGEOBJ_FORM and depth < _MOST_NESTED:
                    groups.append((one, depth + 1))

    def _forget_replacement(self, drawn: Any) -> None:
        """Take off the property by which a text says that it reads otherwise than it looks."""
        pdfium = self._pdfium
        for number in range(pdfium.FPDFPageObj_CountMarks(drawn)):
            pdfium.FPDFPageObjMark_RemoveParam(drawn, pdfium.FPDFPageObj_GetMark(drawn, number), b"ActualText")

    def _read_runs(self) -> Iterator[_Run]:
        pdfium, runs = self._pdfium, dict[int, _Run]()
        left, right, bottom, top = (ctypes.c_double() for _ in range(4))
        for place, letter in enumerate(self.letters):
            drawn = pdfium.FPDFText_GetTextObject(self._text, place)
            if not drawn or letter.isspace():
                continue
            pdfium.FPDFText_GetCharBox(self._text, place, left, right, bottom, top)
            address = ctypes.addressof(drawn.contents)
            if address not in runs:
                runs[address] = _Run(drawn, is_small=self._points(place) < _SMALLEST_POINTS)
            runs[address].letters.append(place)
            runs[address].boxes.append(self._pixels(left.value, bottom.value, right.value, top.value))
        for run in runs.values():
            font = pdfium.FPDFTextObj_GetFont(run.drawn)
            if not pdfium.FPDFFont_GetIsEmbedded(font) and all(self.letters[one] > _LAST_LATIN for one in run.letters):
                run.is_stood_for = True
                letters = (ctypes.c_ushort * (len(run.letters) + 1))(*[ord("o")] * len(run.letters))
                pdfium.FPDFText_SetText(run.drawn, letters)
        return iter(runs.values())

    def _points(self, place: int) -> float:
        """Return the size of a letter on the page in the direction in which it is smallest."""
        matrix = self._pdfium.FS_MATRIX()
        self._pdfium.FPDFText_GetMatrix(self._text, place, matrix)
        squares = matrix.a**2 + matrix.b**2 + matrix.c**2 + matrix.d**2
        area = matrix.a * matrix.d - matrix.b * matrix.c
        smallest = max(0.0, (squares - max(0.0, squares**2 - 4 * area**2) ** 0.5) / 2) ** 0.5
        return float(smallest * self._pdfium.FPDFText_GetFontSize(self._text, place))

    def _pixels(self, left: float, bottom: float, right: float, top: float) -> Box:
        (a, b, c), (d, e, f) = self._to_pixels
        x, y, other_x, other_y = (
            round(a * left + b * bottom + c), round(d * left + e * bottom + f),
            round(a * right + b * top + c), round(d * right + e * top + f),
        )  # fmt: skip
        wide, high = abs(x - other_x) < _THIN, abs(y - other_y) < _THIN
        return min(x, other_x) - wide, min(y, other_y) - high, max(x, other_x) + 1 + wide, max(y, other_y) + 1 + high

    def _affine(self) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """Return the map from the page to pixels, which turns it and cuts it to its crop box."""
        far, across, down = 10_000, ctypes.c_int(), ctypes.c_int()
        places = []
        for x, y in ((0, 0), (far, 0), (0, far)):
            self._pdfium.FPDF_PageToDevice(self._page, 0, 0, *self._size, 0, x, y, across, down)
            places.append((across.value, down.value))
        (x, y), (right_x, right_y), (up_x, up_y) = places
        return ((right_x - x) / far, (up_x - x) / far, x), ((right_y - y) / far, (up_y - y) / far, y)

    def _picture(self, without: list[_Run]) -> Any:
        """Return the page in steps of grey, `without` some of its texts."""
        import numpy

        pdfium, (width, height) = self._pdfium, self._size
        picture = numpy.full((height, width), 255, numpy.uint8)
        for run in without:
            pdfium.FPDFPageObj_SetIsActive(run.drawn, False)
        bitmap = pdfium.FPDFBitmap_CreateEx(
            width, height, pdfium.FPDFBitmap_Gray, picture.ctypes.data_as(ctypes.c_void_p), width
        )
        pdfium.FPDF_RenderPageBitmap(bitmap, self._page, 0, 0, width, height, 0, pdfium.FPDF_ANNOT)
        pdfium.FPDFBitmap_Destroy(bitmap)
        for run in without:
            pdfium.FPDFPageObj_SetIsActive(run.drawn, True)
        return picture

    def _layers(self) -> list[list[_Run]]:
        """Return the texts in groups in which none lies on another."""
        import numpy

        width, height = self._size
        layers: list[tuple[list[_Run], Any]] = []
        for run in self._runs:
            left, top, right, bottom = run.extent
            if run.is_small or right <= 0 or bottom <= 0 or left >= width or top >= height:
                continue
            part = slice(max(0, top), bottom), slice(max(0, left), right)
            number = next((n for n, (_, taken) in enumerate(layers) if taken[part].mean() <= _OVERLAP), len(layers))
            if number == _MOST_LAYERS:
                continue
            if number == len(layers):
                layers.append(([], numpy.zeros((height, width), bool)))
            layers[number][0].append(run)
            layers[number][1][part] = True
        return [members for members, _ in layers]

    def _scanned(self, full: Any) -> set[int]:
        """Return the letters in invisible ink that lie on the ink of a picture."""
        modes = self._pdfium.FPDFTextObj_GetTextRenderMode
        invisible = [run for run in self._runs if modes(run.drawn) in _INVISIBLE_INK and not run.is_small]
        if not invisible:
            return set()
        dark = full < full.max() - 4 * _CONTRAST
        return {place for run in invisible for place in _seen(run, dark)}


def _differ(first: Any, second: Any) -> Any:
    import numpy

    return numpy.maximum(first, second) - numpy.minimum(first, second) >= _CONTRAST


def _seen(run: _Run, ink: Any) -> list[int]:
    """Return the letters of a text that can be read in the ink: all, none, or each by itself where a part is cut."""
    left, top, right, bottom = run.extent
    top, left = max(0, top), max(0, left)
    if run.is_stood_for:
        return run.letters if ink[top:bottom, left:right].mean() >= _LEAST_INK else []
    covered = ink[top:bottom, left:right] & False
    inked = area = 0
    seen: list[int] = []
    for place, (x, y, other_x, other_y) in zip(run.letters, run.boxes, strict=True):
        part = slice(max(0, y), max(0, other_y)), slice(max(0, x), max(0, other_x))
        size = (other_x - x) * (other_y - y)
        painted = int(ink[part].sum())
        covered[max(0, y - top) : max(0, other_y - top), max(0, x - left) : max(0, other_x - left)] = True
        inked, area = inked + painted, area + size
        if painted >= _LEAST_INK * size:
            seen.append(place)
    is_text = len(run.letters) > 3
    if is_text and (inked > _MOST_INK * area or area > _MOST_PILED * max(1, int(covered.sum()))):
        return []
    share = len(seen) / len(run.letters)
    return run.letters if share >= 0.75 else seen if share >= 0.25 else []
