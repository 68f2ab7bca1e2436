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
_RUN = re.compile(rb"<w:r[ >].*?</w:r>", re.DOTALL)
_HIDES = re.compile(rb"<w:(?:vanish|webHidden)(?:\s*/>|\s[^>]*w:val=\"(?:1|true|on)\"[^>]*>)")
_WORDS = re.compile(rb"(<w:t(?:\s[^>]*)?>)[^<]*(</w:t>)")
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


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
        hidden = set(_hidden(packed, media_type))
        if media_type == _WORD:
            body = _without_hidden_words(packed, body)
    found = library.extract_bytes_sync(body, media_type, config)
    facts, text = dict(found.metadata), found.content
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
        "parts": [part for part in parts if part["name"] not in hidden],
        "title": facts.get("title"),
        "author": ", ".join(authors) or None,
        "language": facts.get("language"),
        "created": facts.get("created_at"),
        "modified": facts.get("modified_at"),
    }


def _slides(text: str, mark: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each slide, below a heading with its number."""
    for part in text.split(mark)[1:]:
        number, _, content = part.partition("\n")
        if content.strip():
            yield int(number), f"# Slide {int(number)}\n\n{content.strip()}\n"


def _sheets(text: str, names: list[str] | None) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each sheet; its heading with the name is the library's."""
    rest = f"\n{text}"
    name = ""
    for following in (*(names or ()), None):
        content, _, after = rest.partition(f"\n## {following}\n") if following is not None else (rest, "", "")
        if following is not None and not _:
            continue
        if content.strip() and name:
            yield name, f"# Sheet {name}\n\n{content.strip()}\n"
        name, rest = following or "", f"\n{after}"


def _hidden(packed: zipfile.ZipFile, media_type: str) -> Iterator[str]:
    """Yield the names of the slides or sheets that their program does not show."""
    if media_type == _SHEETS:
        for sheet in _parsed(packed, "xl/workbook.xml").iter():
            if sheet.tag.endswith("}sheet") and sheet.get("state") in ("hidden", "veryHidden"):
                yield f"sheet {sheet.get('name')}"
    elif media_type == _SLIDES:
        targets = {one.get("Id"): one.get("Target", "") for one in _parsed(packed, "ppt/_rels/presentation.xml.rels")}
        listed = [one for one in _parsed(packed, "ppt/presentation.xml").iter() if one.tag.endswith("}sldId")]
        for number, slide in enumerate(listed, start=1):
            target = targets.get(slide.get(_RELATION), "")
            path = target.lstrip("/") if target.startswith("/") else f"ppt/{target}"
            if _parsed(packed, path).get("show") in ("0", "false"):
                yield f"slide {number}"


def _without_hidden_words(packed: zipfile.ZipFile, body: bytes) -> bytes:
    """Return the file without the words of runs that are formatted as hidden."""
    place = "word/document.xml"
    xml = _part(packed, place)
    if not _HIDES.search(xml):
        return body
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as copy:
        for entry in packed.infolist():
            content = _RUN.sub(_emptied, xml) if entry.filename == place else _part(packed, entry.filename)
            copy.writestr(entry.filename, content)
    return written.getvalue()


def _emptied(run: re.Match[bytes]) -> bytes:
    return _WORDS.sub(rb"\1\2", run[0]) if _HIDES.search(run[0]) else run[0]


def _parsed(packed: zipfile.ZipFile, name: str) -> ElementTree.Element:
    xml = _part(packed, name)
    if b"<!DOCTYPE" in xml:
        raise ValueError(f"{name} has a document type")
    return ElementTree.fromstring(xml)  # noqa: S314 - without a document type, in a jail


def _part(packed: zipfile.ZipFile, name: str) -> bytes:
    with packed.open(name) as file:
        content = file.read(_MOST_PART_BYTES + 1)
    if len(content) > _MOST_PART_BYTES:
        raise ValueError(f"{name} unpacks to more than {_MOST_PART_BYTES} bytes")
    return content
