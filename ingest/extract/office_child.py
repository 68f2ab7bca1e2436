"""Reads one office file or book by kreuzberg, in the child process that `child` has locked up.

The answer is `{"parts": [{"name": "slide 4", "text": …}], "title": …, "author": …, "language": …, "created": …,
"modified": …}`; a document without slides or sheets is one part without a name.
"""

from __future__ import annotations

import io
import re
import secrets
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from xml.etree import ElementTree

from sluice.ingest.extract.child import Encrypted, TooMuchText

HAS_SOCKETPAIR = True
"""The library's runtime wakes its threads by one."""
_OOXML = "application/vnd.openxmlformats-officedocument."
_WORD, _SLIDES, _SHEETS = (
    f"{_OOXML}{kind}" for kind in ("wordprocessingml.document", "presentationml.presentation", "spreadsheetml.sheet")
)
_OLE = b"\xd0\xcf\x11\xe0"
"""An office file with a password is no zip but one of these (MS-OFFCRYPTO, 2.3)."""
_MOST_PART_BYTES = 100_000_000
_LIMITS = {
    "max_archive_size": 200_000_000,
    "max_compression_ratio": 100,
    "max_files_in_archive": 10_000,
    "max_content_size": 100_000_000,
}
_TEXT = "application/vnd.oasis.opendocument.text"
_MAIN = {_WORD: "word/document.xml", _TEXT: "content.xml", _SLIDES: "ppt/presentation.xml", _SHEETS: "xl/workbook.xml"}
_ESCAPES = re.compile(r"(?<!^)\\(?=#)|\\(?=[!~.+()-])", re.MULTILINE)
"""Backslashes before letters that mean nothing there, as in `C\\#`."""
_ON = ("1", "true", "on")
_SMALLEST_HALF_POINTS = 4
_MOST_HEIRS = 20


def load() -> None:
    """Load the library, which starts its threads at the first file only, and what reading a zip loads by itself."""
    import encodings.cp437  # noqa: F401

    import kreuzberg  # noqa: F401

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a", "<a/>")
    with zipfile.ZipFile(packed) as file:
        _parsed(file, "a")


def read(body: bytes, media_type: str, most_chars: str) -> dict[str, Any]:
    """Return the text and facts of a file. Raises Encrypted, TooMuchText, or whatever a damaged file makes of it."""
    import kreuzberg as library

    if body.startswith(_OLE):
        raise Encrypted
    mark = secrets.token_hex(16)
    config = library.ExtractionConfig(
        use_cache=False,
        disable_ocr=True,
        enable_quality_processing=False,
        output_format="markdown",
        pages=library.PageConfig(insert_page_markers=True, marker_format=f"\n\n{mark}{{page_num}}\n\n"),
        concurrency=library.ConcurrencyConfig(max_threads=1),
    )
    config.security_limits = {**(config.security_limits or {}), **_LIMITS}
    with zipfile.ZipFile(io.BytesIO(body)) as packed:
        if any(entry.flag_bits & 1 for entry in packed.infolist()):
            raise Encrypted
        body = _without_hidden(packed, body, media_type)
    found = library.extract_bytes_sync(body, media_type, config)
    facts, text = dict(found.metadata), _ESCAPES.sub("", found.content).removesuffix("-----\n")
    if len(text) > int(most_chars):
        raise TooMuchText
    if media_type == _SLIDES:
        parts = [{"name": f"slide {number}", "text": part} for number, part in _slides(text, mark)]
    elif media_type == _SHEETS:
        parts = [{"name": f"sheet {name}", "text": part} for name, part in _sheets(text, facts.get("sheet_names"))]
    else:
        parts = [{"name": "", "text": text.replace(mark, "")}]
    authors = facts.get("authors") or []
    return {
        "parts": parts,
        "title": facts.get("title"),
        "author": ", ".join(authors) or None,
        "language": facts.get("language"),
        "created": facts.get("created_at"),
        "modified": facts.get("modified_at"),
    }


def _slides(text: str, mark: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each slide, below a heading with its number; no text of one without words."""
    for part in text.split(mark)[1:]:
        number, _, content = part.partition("\n")
        yield int(number), f"# Slide {int(number)}\n\n{content.strip()}\n" if content.strip() else ""


def _sheets(text: str, names: list[str] | None) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each sheet; its heading with the name is the library's, which escapes letters."""
    told = "|".join("".join(rf"\\?{re.escape(letter)}" for letter in name) for name in names or ())
    parts = re.split(rf"^## ({told})\n", text, flags=re.MULTILINE)
    for heading, content in zip(parts[1::2], parts[2::2], strict=True):
        if content.strip():
            name = re.sub(r"\\(.)", r"\1", heading)
            yield name, f"# Sheet {name}\n\n{content.strip()}\n"


def _without_hidden(packed: zipfile.ZipFile, body: bytes, media_type: str) -> bytes:
    """Return the file without the words, slides, sheets, rows, columns and shapes that its program does not show."""
    if media_type not in _MAIN:
        return body
    names = packed.namelist()
    if len({name.lower() for name in names}) < len(names):
        raise ValueError("it has two parts of one name")
    changed: dict[str, bytes] = {}
    for name, is_off in _places(packed, media_type):
        xml = _part(packed, name)
        if media_type in (_SLIDES, _SHEETS) and not is_off and not re.search(rb"hidden|show|\0", xml):
            continue  # the attributes by which one hides something; a zero byte is another encoding
        root = _parsed(packed, name)
        if media_type == _WORD:
            hidden = _hidden_runs(root, packed)
        elif media_type == _SLIDES:
            hidden = [one for one in root.iter() if len(one) and len(one[0]) and one[0][0].get("hidden") in _ON]
            hidden += _named(root, "spTree") if root.get("show") in ("0", "false") else ()
        elif media_type == _SHEETS:
            hidden = list(_named(root, "sheetData")) if is_off else _hidden_cells(root)
        else:
            hidden = _hidden_elements(root, packed)
        for one in hidden:
            tail = one.tail
            one.clear()
            one.tail = tail
        if hidden:
            for _, (prefix, url) in ElementTree.iterparse(io.BytesIO(xml), ["start-ns"]):  # noqa: S314 - as above
                with suppress(ValueError):
                    ElementTree.register_namespace(prefix, url)
            changed[name] = ElementTree.tostring(root, "utf-8")
    if not changed:
        return body
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as copy:
        for name in names:
            copy.writestr(name, changed.get(name) or _part(packed, name))
    return written.getvalue()


def _places(packed: zipfile.ZipFile, media_type: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts with a file's text, wherever it says that they are, and whether a part is hidden as a whole."""
    main = _MAIN[media_type]
    if media_type not in (_SLIDES, _SHEETS):
        yield main, False
        return
    names = {name.lower(): name for name in packed.namelist()}
    folder, _, file = main.partition("/")
    relations = {one.get("Id"): one.get("Target", "") for one in _parsed(packed, f"{folder}/_rels/{file}.rels")}
    for one in _parsed(packed, main).iter():
        if _name(one) in ("sldId", "sheet"):
            target = relations.get(next((value for key, value in one.items() if key.endswith("}id")), None), "")
            place = target.lstrip("/") if target.startswith("/") else f"{folder}/{target}"
            if place.lower() in names:
                yield names[place.lower()], one.get("state") in ("hidden", "veryHidden")


def _hidden_runs(root: ElementTree.Element, packed: zipfile.ZipFile) -> list[ElementTree.Element]:
    """Return the runs that are formatted as hidden, by themselves or by their style or paragraph's, or are tiny."""
    styles: dict[str, tuple[str, bool]] = {}
    if "word/styles.xml" in packed.namelist():
        for style in _named(_parsed(packed, "word/styles.xml"), "style"):
            hides = bool(_vanishes(_child(style, "rPr")))
            styles[_told(style, "styleId")] = _told(_child(style, "basedOn"), "val"), hides
    names, found, left = _with_heirs(styles), list[ElementTree.Element](), [(root, False)]
    while left:
        one, is_hidden = left.pop()
        if _name(one) == "p":
            is_hidden = _told(_child(_child(one, "pPr"), "pStyle"), "val") in names
        elif _name(one) == "r":
            form = _child(one, "rPr")
            size, says = _told(_child(form, "sz"), "val"), _vanishes(form)
            is_so = is_hidden or _told(_child(form, "rStyle"), "val") in names if says is None else says
            if is_so or (size.isdecimal() and int(size) <= _SMALLEST_HALF_POINTS):
                found.append(one)
        left += [(child, is_hidden) for child in one]
    return found


def _vanishes(form: ElementTree.Element | None) -> bool | None:
    """Return whether a format hides its words; None if it does not say."""
    switches = [_child(form, name) for name in ("vanish", "webHidden")]
    told = [_told(one, "val") in ("", *_ON) for one in switches if one is not None]
    return any(told) if told else None


def _hidden_cells(root: ElementTree.Element) -> list[ElementTree.Element]:
    """Return the rows of a sheet that are hidden, and the cells of its hidden columns."""
    hidden = [one for one in _named(root, "col") if one.get("hidden") in _ON]
    columns = [range(int(one.get("min", 0)), int(one.get("max", 0)) + 1) for one in hidden]
    cells = [one for one in _named(root, "c") if any(_column(one.get("r", "")) in some for some in columns)]
    return cells + [one for one in _named(root, "row") if one.get("hidden") in _ON]


def _column(place: str) -> int:
    """Return the number of a cell's column: 28 of `AB7`."""
    number = 0
    for letter in place.rstrip("0123456789"):
        number = number * 26 + ord(letter) - 64
    return number


def _hidden_elements(root: ElementTree.Element, packed: zipfile.ZipFile) -> list[ElementTree.Element]:
    """Return what an OpenDocument text hides: by a style, as a section or a field; notes of readers, deleted text."""
    roots = [root, *(_parsed(packed, name) for name in packed.namelist() if name == "styles.xml")]
    names = _with_heirs(
        {
            _told(style, "name"): (
                _told(style, "parent-style-name"),
                _told(_child(style, "text-properties"), "display") == "none",
            )
            for one_root in roots
            for style in _named(one_root, "style")
        }
    )
    return [
        one
        for one in root.iter()
        if _told(one, "style-name") in names
        or _told(one, "display") == "none"
        or _told(one, "is-hidden") == "true"
        or one.tag.endswith(("}annotation", "}tracked-changes"))
    ]


def _with_heirs(styles: dict[str, tuple[str, bool]]) -> set[str]:
    """Return the names of the styles that hide, out of each one's parent and whether it hides by itself."""
    hiding = {name for name, (_, hides) in styles.items() if hides}
    for _ in range(_MOST_HEIRS):
        hiding |= {name for name, (parent, _) in styles.items() if parent in hiding}
    return hiding - {""}


def _named(element: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    return (one for one in element.iter() if _name(one) == name)


def _child(element: ElementTree.Element | None, name: str) -> ElementTree.Element | None:
    return next((one for one in element if _name(one) == name), None) if element is not None else None


def _name(element: ElementTree.Element) -> str:
    """Return the name in whatever namespace it claims to be: the library does not look at that either."""
    return element.tag.rpartition("}")[2]


def _told(element: ElementTree.Element | None, name: str) -> str:
    found = element.items() if element is not None else ()
    return next((value for key, value in found if key.rpartition("}")[2] == name), "")


def _parsed(packed: zipfile.ZipFile, name: str) -> ElementTree.Element:
    xml = _part(packed, name)
    if b"<!ENTITY" in xml:
        raise ValueError(f"{name} defines entities")
    return ElementTree.fromstring(xml)  # noqa: S314 - without entities, in a jail


def _part(packed: zipfile.ZipFile, name: str) -> bytes:
    with packed.open(name) as file:
        content = file.read(_MOST_PART_BYTES + 1)
    if len(content) > _MOST_PART_BYTES:
        raise ValueError(f"{name} unpacks to more than {_MOST_PART_BYTES} bytes")
    return content
