"""Extracts Markdown from office files and electronic books, by kreuzberg in a child process (ingest/extract/jailed.py).

Slides and sheets are parts with a name each, parted by form feeds, so that a citation can say `slide 4`; documents and
books have their headings. A slide or sheet that is hidden, and words that Word hides, are left out.
"""

from __future__ import annotations

from datetime import datetime
from importlib.util import find_spec
from itertools import accumulate

from sluice.contracts.errors import InvalidInput
from sluice.ingest.extract.extracted import Anchor, Extracted, LinkedWords
from sluice.ingest.extract.html.metadata import parse_moment
from sluice.ingest.extract.jailed import Bounds, read_jailed
from sluice.ingest.extract.markdown_input import extract_markdown
from sluice.ingest.extract.media_types import OFFICE
from sluice.text.hidden import visible

CPU_SECONDS = 20
"""Processor time for a file: a document of 1 MB needs less than one."""
ADDRESS_SPACE_BYTES = 1_000_000_000
"""Of these 330 MB are the library and its threads, most of it never touched."""
PART_BREAK = "\n\n\f\n"
LIBRARY, REMEDY = "kreuzberg", "pip install 'sluice[uploads]'"


def missing_library() -> str | None:
    """Return why office files cannot be read here; None where they can."""
    return None if find_spec(LIBRARY) else f"{LIBRARY} is not installed: {REMEDY} brings it"


def extract_office(body: bytes, kind: str) -> Extracted:
    """Extract the text of a file of the media type `kind`, one of `OFFICE`.

    Raises InvalidInput, naming the cause, if the library is missing, or the file is damaged, encrypted or exceeds a
    limit, and Unavailable if the process that reads it could not be started.
    """
    if why := missing_library():
        raise InvalidInput("media_type", f"{OFFICE[kind]} cannot be read: {why}", REMEDY)
    bounds = Bounds(CPU_SECONDS, ADDRESS_SPACE_BYTES)
    answer = read_jailed(OFFICE[kind], "office_child", body, bounds, kind, bounds.most_chars)
    read = [extract_markdown(part["text"].replace("\f", "\n")) for part in answer["parts"]]
    texts = [one.text.rstrip("\n") for one in read]
    starts = accumulate((len(text) + len(PART_BREAK) for text in texts), initial=0)
    placed = list(zip(starts, read, answer["parts"], strict=False))
    links = tuple(
        LinkedWords(link.start + start, link.end + start, link.url)
        for start, one, _ in placed
        for link in one.linked_words
    )
    names = [(start, part["name"]) for start, _, part in placed if part["name"] and part["text"]]
    first = read[0] if read and not names else None
    return Extracted(
        text=PART_BREAK.join(texts) if any(map(str.strip, texts)) else "",
        media_type=kind,
        form="parts" if names else "markdown",
        title=_fact(answer["title"]) or (first.title if first else None),
        language=(answer["language"] or "")[:2].lower() or None,
        author=_fact(answer["author"]),
        published_at=_moment(answer["modified"] or answer["created"]),
        linked_words=links,
        anchors=tuple(Anchor(start, " ".join(visible(name).split())) for start, name in names),
    )


def _fact(value: str | None) -> str | None:
    return (" ".join(visible(value).split()) or None) if value else None


def _moment(value: str | None) -> datetime | None:
    return parse_moment(value) if value else None
