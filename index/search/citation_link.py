"""Links by which a reader finds a cited passage.

    a page         https://example.org/guide#install:~:text=Download%20the,and%20start%20it
    a PDF          https://example.org/paper.pdf#page=3        docs/paper.pdf#page=3
    a file         docs/guide.md:10
    an HTML file   docs/guide.html#install

The text directive (WICG, Scroll To Text Fragment, section 3.3) names the passage's first and last words as the page
shows them; a browser that does not know it, or does not find the words, goes to the heading. A submitted document has
no link: its address is only claimed by the caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePosixPath
from urllib.parse import quote

from sluice.contracts.retrieval import RetrievedChunk

MOST_WORDS, MOST_CHARACTERS = 6, 60
"""Most words and characters at each end of a passage: unique enough in a page, short enough for an address."""
_LEAST_WORDS = 3
"""Fewer words than this stand in a page more than once."""
_READ_AS_ANOTHER_TEXT = frozenset(
    (".html", ".htm", ".xhtml", ".pdf", ".xml", ".rss", ".atom", ".docx", ".pptx", ".xlsx", ".odt", ".epub", ".ipynb")
)
"""Files whose lines differ from those of the extracted text."""
_READ_AS_IT_IS = frozenset(
    (".md", ".markdown", ".mdx", ".rst", ".txt", ".text", ".log", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml")
)
"""Suffixes of addresses whose lines are those of the file; other pages of the web are HTML, if not source code."""
_KEPT_IN_FRAGMENT = "!$&'()*+,;=:@/?"
"""Characters that a fragment may contain beside the unreserved ones (RFC 3986, section 3.5)."""
_LINE_MARKS = re.compile(r"(?:[ \t]*(?:>|(?:[-*+]|\d{1,9}[.)])(?=[ \t])))*[ \t]*(?:#{1,6}[ \t]+)?\\?")
_PAIRED_MARKS = re.compile(r"(\*{1,3}|~~|`+)(?=\S)(.+?)(?<=\S)\1")
_FENCE = re.compile(r"[ \t>]*(?:[-*+][ \t]+)*(?:`{3,}|~{3,})")
_LONE_MARK = re.compile(r"(?<!\S)(?:\*{1,3}|~~|`+)\w\S*|\S*\w[^\w\s]{0,3}(?:\*{1,3}|~~|`+)(?!\S)")
_MASKED = re.compile(r"\[(?:secret: [\w.-]+|card|iban|email|ip|ssn|phone)\]")
"""Placeholder of a masked value, which the page does not show."""
_CUT_OFF = re.compile(r" …(?: \S+)?\Z")
"""The end of a snippet: the sign of a cut, and the address (trust/snippets.py)."""
_SENTENCE = re.compile(r".+?[。！？]")


def link_of(chunk: RetrievedChunk) -> str | None:
    """Return the link of a passage; None for a submitted one, and for one with neither address nor path."""
    if chunk.provenance.source == "submission":
        return None
    if chunk.file_path is not None:
        return chunk.file_path + (_place(chunk) or _line(chunk, chunk.file_path))
    if chunk.url is None:
        return None
    place = _place(chunk)
    if chunk.page is None and (directive := text_directive(chunk.text)):
        place = f"{place or ('' if '#' in chunk.url else '#')}:~:{directive}"
    return f"{chunk.url.partition('#')[0] if chunk.page or chunk.anchor else chunk.url}{place}"


def format_source(chunk: RetrievedChunk) -> str:
    """Return `path:start-end`; for a PDF `path:page 3`, for slides and sheets `path:slide 4`, and for HTML, XML and
    documents `path § heading`, whose lines nobody sees.

    Instead of the path stands the URL where there is no path, or the document's id where there is neither.
    """
    address = chunk.file_path or chunk.url or chunk.document_id
    if chunk.page is not None:
        return f"{address}:{chunk.anchor or f'page {chunk.page}'}"
    if _has_lines(chunk, address):
        return f"{address}:{chunk.start_line}-{chunk.end_line}"
    return f"{address} § {chunk.section_path[-1]}" if chunk.section_path else address


def _has_lines(chunk: RetrievedChunk, address: str) -> bool:
    """Return whether the chunk's lines are those of the file or of the text that was handed in."""
    suffix = PurePosixPath(re.split("[?#]", address, maxsplit=1)[0]).suffix.lower()
    if chunk.anchor is not None or suffix in _READ_AS_ANOTHER_TEXT:
        return False
    is_code = chunk.symbol_path is not None or len(chunk.language or "") > 2
    return chunk.provenance.source in ("file", "submission") or suffix in _READ_AS_IT_IS or is_code


def _place(chunk: RetrievedChunk) -> str:
    if chunk.page is not None:
        return "" if chunk.anchor else f"#page={chunk.page}"
    return f"#{quote(chunk.anchor, safe=_KEPT_IN_FRAGMENT)}" if chunk.anchor else ""


def _line(chunk: RetrievedChunk, path: str) -> str:
    return "" if PurePosixPath(path).suffix.lower() in _READ_AS_ANOTHER_TEXT else f":{chunk.start_line}"


@lru_cache(maxsize=256)
def text_directive(text: str) -> str | None:
    """Return `text=first words,last words` of a Markdown passage; None where no words suit."""
    lines = _lines_to_quote(_CUT_OFF.sub("", text))
    if not lines:
        return None
    first, last = _whole_words(lines[0]), _whole_words(lines[-1], from_end=True)
    if not first or not last:
        return None
    if len(lines) == 1 and first == last and len(first) <= 2 * MOST_WORDS and len(lines[0]) <= 2 * MOST_CHARACTERS:
        return f"text={_encoded(' '.join(first))}"
    start, end = _within(first), _within(last, from_end=True)
    if len(lines) == 1 and len(start) + len(end) >= len(lines[0]):
        return f"text={_encoded(start)}"
    return f"text={_encoded(start)},{_encoded(end)}"


def _lines_to_quote(text: str) -> list[str]:
    """Return lines of prose as the page shows them; else lines of code, a cell of a table, or a heading."""
    kinds: dict[str, list[str]] = {"prose": [], "code": [], "cell": [], "heading": []}
    for kind, line in _rendered(text):
        kinds[kind].append(line)
    long = [line for line in kinds["prose"] if len(line.split()) >= MOST_WORDS or len(line) > MOST_CHARACTERS]
    return (
        long
        or [line for line in kinds["prose"] if len(line.split()) >= _LEAST_WORDS]
        or kinds["prose"]
        or kinds["code"]
        or kinds["cell"][-1:]
        or kinds["heading"][:1]
    )


def _rendered(text: str) -> Iterator[tuple[str, str]]:
    is_code = False
    for line in text.split("\n"):
        if _MASKED.search(line):
            continue
        if _FENCE.match(line):
            is_code = not is_code
        elif is_code:
            if shown := " ".join(line.split()):
                yield "code", shown
        elif line.lstrip(" \t>").startswith("|"):
            if cell := max((_unmarked(cell) for cell in re.split(r"(?<!\\)\|", line)), key=len).strip(" :-"):
                yield "cell", cell
        elif shown := _unmarked(_LINE_MARKS.sub("", line, count=1)):
            yield "heading" if line.startswith("#") else "prose", shown


def _unmarked(text: str) -> str:
    return " ".join(_PAIRED_MARKS.sub(r"\2", _PAIRED_MARKS.sub(r"\2", text)).replace("\\|", "|").split())


def _whole_words(line: str, *, from_end: bool = False) -> list[str]:
    """Return the words of a line up to the first mark of emphasis without a partner, or from the last such mark on.

    Emphasis across a line end or a cut leaves such a mark; the page may or may not show it.
    """
    runs = [run.split() for run in _LONE_MARK.split(line)]
    long = [run for run in runs if len(run) >= _LEAST_WORDS] or [run for run in runs if run]
    return (long[-1] if from_end else long[0]) if long else []


def _within(words: list[str], *, from_end: bool = False) -> str:
    """Return the first or last words; in a script without spaces, the first or last characters of a sentence."""
    chosen: list[str] = []
    for word in reversed(words) if from_end else words:
        if chosen and (len(chosen) == MOST_WORDS or sum(map(len, chosen)) + len(chosen) + len(word) > MOST_CHARACTERS):
            break
        chosen.append(word)
    text = " ".join(reversed(chosen) if from_end else chosen)
    if len(text) <= MOST_CHARACTERS:
        return text
    sentences: list[str] = _SENTENCE.findall(text) or [text]
    return sentences[-1][-MOST_CHARACTERS // 2 :] if from_end else sentences[0][: MOST_CHARACTERS // 2]


def _encoded(words: str) -> str:
    """Return the words percent-encoded, the dash too: like `,` and `&` it has a meaning in a directive."""
    return quote(words, safe="").replace("-", "%2D")
