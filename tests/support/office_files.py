"""Office files and books of a few words, written part by part."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
REL = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
TYPES = "application/vnd.openxmlformats-officedocument"


def zip_of(parts: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip file of these parts, in their order."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else method)
    return packed.getvalue()


def edited(body: bytes, place: str, old: str, new: str, **more: str) -> bytes:
    """Return a zip file with another text in one of its parts, and with more parts."""
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert old in parts[place]
    return zip_of({**parts, place: parts[place].replace(old, new), **more})


def docx_of(body: str, **more: str | bytes) -> bytes:
    """Return a Word file with this body, in WordprocessingML."""
    return zip_of(
        {
            **_package({"/word/document.xml": f"{TYPES}.wordprocessingml.document.main+xml"}, "word/document.xml"),
            "word/document.xml": f"<?xml version='1.0'?><w:document {W}><w:body>{body}</w:body></w:document>",
            **more,
        }
    )


def paragraph(text: str, properties: str = "", run: str = "") -> str:
    """Return a paragraph of a Word file."""
    return f"<w:p>{properties}<w:r>{run}<w:t>{text}</w:t></w:r></w:p>"


def pptx_of(slides: Sequence[str], hidden: Sequence[int] = ()) -> bytes:
    """Return a presentation with these texts; `hidden` are numbers of slides that are not shown."""
    p = f'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:r="{REL}"'
    numbers = range(1, len(slides) + 1)
    overrides = {f"/ppt/slides/slide{n}.xml": f"{TYPES}.presentationml.slide+xml" for n in numbers}
    main = {"/ppt/presentation.xml": f"{TYPES}.presentationml.presentation.main+xml"}
    ids = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n}"/>' for n in numbers)
    relations = "".join(f'<Relationship Id="rId{n}" Type="{REL}/slide" Target="slides/slide{n}.xml"/>' for n in numbers)
    return zip_of(
        {
            **_package({**main, **overrides}, "ppt/presentation.xml"),
            "ppt/presentation.xml": f"<?xml version='1.0'?><p:presentation {p}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>",
            "ppt/_rels/presentation.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{relations}</Relationships>',
            **{f"ppt/slides/slide{n}.xml": _slide(p, slides[n - 1], n in hidden) for n in numbers},
        }
    )


def xlsx_of(sheets: Mapping[str, Sequence[Sequence[str]]], hidden: Sequence[str] = ()) -> bytes:
    """Return a workbook with these sheets of texts."""
    s = f'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="{REL}"'
    numbers = dict(enumerate(sheets, start=1))
    overrides = {f"/xl/worksheets/sheet{n}.xml": f"{TYPES}.spreadsheetml.worksheet+xml" for n in numbers}
    main = {"/xl/workbook.xml": f"{TYPES}.spreadsheetml.sheet.main+xml"}
    listed = "".join(
        f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}" state="{"hidden" if name in hidden else "visible"}"/>'
        for n, name in numbers.items()
    )
    relations = "".join(
        f'<Relationship Id="rId{n}" Type="{REL}/worksheet" Target="worksheets/sheet{n}.xml"/>' for n in numbers
    )
    return zip_of(
        {
            **_package({**main, **overrides}, "xl/workbook.xml"),
            "xl/workbook.xml": f"<?xml version='1.0'?><workbook {s}><sheets>{listed}</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{relations}</Relationships>',
            **{
                f"xl/worksheets/sheet{n}.xml": f"<?xml version='1.0'?><worksheet {s}><sheetData>{_rows(sheets[name])}</sheetData></worksheet>"
                for n, name in numbers.items()
            },
        }
    )


def odt_of(text: str) -> bytes:
    """Return an OpenDocument text with a heading and this paragraph."""
    names = 'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
    kind = "application/vnd.oasis.opendocument.text"
    return zip_of(
        {
            "mimetype": kind,
            "META-INF/manifest.xml": f'<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/></manifest:manifest>',
            "content.xml": f'<?xml version="1.0"?><office:document-content {names}><office:body><office:text><text:h text:outline-level="1">Heading</text:h><text:p>{text}</text:p></office:text></office:body></office:document-content>',
        }
    )


def epub_of(chapters: Mapping[str, str], title: str = "The Book") -> bytes:
    """Return a book with these chapters."""
    numbers = dict(enumerate(chapters, start=1))
    items = "".join(f'<item id="c{n}" href="c{n}.xhtml" media-type="application/xhtml+xml"/>' for n in numbers)
    spine = "".join(f'<itemref idref="c{n}"/>' for n in numbers)
    return zip_of(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="c.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
            "c.opf": f'<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>',
            **{
                f"c{n}.xhtml": f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>{name}</title></head><body><h1>{name}</h1><p>{chapters[name]}</p></body></html>'
                for n, name in numbers.items()
            },
        }
    )


def _slide(names: str, text: str, is_hidden: bool) -> str:
    shape = f"<p:sp><p:nvSpPr><p:cNvPr id='2' name='T'/></p:nvSpPr><p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    show = "0" if is_hidden else "1"
    return f"<?xml version='1.0'?><p:sld {names} show='{show}'><p:cSld><p:spTree>{shape}</p:spTree></p:cSld></p:sld>"


def _rows(rows: Sequence[Sequence[str]]) -> str:
    return "".join(
        f'<row r="{n}">{"".join(_cell(f"{chr(65 + column)}{n}", text) for column, text in enumerate(row))}</row>'
        for n, row in enumerate(rows, start=1)
    )


def _cell(place: str, text: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


def _package(overrides: Mapping[str, str], main: str) -> dict[str, str]:
    told = "".join(f'<Override PartName="{name}" ContentType="{kind}"/>' for name, kind in overrides.items())
    return {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>{told}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="rId1" Type="{REL}/officeDocument" Target="{main}"/></Relationships>',
    }
