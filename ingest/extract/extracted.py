"""The result of an extraction: readable text and the facts around it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Form = Literal["markdown", "text", "pages", "parts", "code"]


@dataclass(frozen=True, slots=True)
class LinkedWords:
    """A link: `text[start:end]` of the extracted text leads to `url`."""

    start: int
    end: int
    url: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """The fragment `#fragment` of the heading or term whose line begins at `text[start]`."""

    start: int
    fragment: str


@dataclass(frozen=True, slots=True)
class Extracted:
    """Readable text and its facts. Every fact is the document's own statement, or None.

    `form` is the structure of `text`: Markdown, plain text, pages parted by form feeds, parts of Markdown (slides,
    sheets) parted by form feeds, each named by its anchor, or source code in `code_language`. `language` is the
    declared natural language (two letters). `confidence` in [0, 1] says how surely `text` is the content: near 0 for
    the empty shell of a page that is built by its scripts, or for a scanned PDF.

    `text` holds the words of links without their addresses, which mean nothing to an embedding and would fill its
    window; `linked_words` locates the links in `text`, and `markdown()` combines the two. `anchors` are in the order of
    the text. `licence` is an address or a name; `json_ld` the linked data of the page as one JSON array.
    """

    text: str
    media_type: str
    form: Form
    title: str | None = None
    language: str | None = None
    published_at: datetime | None = None
    author: str | None = None
    canonical_url: str | None = None
    confidence: float = 1.0
    code_language: str | None = None
    site_name: str | None = None
    licence: str | None = None
    json_ld: str | None = None
    linked_words: tuple[LinkedWords, ...] = ()
    anchors: tuple[Anchor, ...] = ()

    def markdown(self) -> str:
        """Return `text` for display, with its links written as `[words](address)`."""
        parts: list[str] = []
        done = 0
        for link in self.linked_words:
            parts += (
                self.text[done : link.start],
                "[",
                self.text[link.start : link.end],
                f"]({_in_parentheses(link.url)})",
            )
            done = link.end
        return "".join((*parts, self.text[done:]))


def _in_parentheses(url: str) -> str:
    """Return an address that does not end a Markdown link early."""
    return url.replace("(", "%28").replace(")", "%29")
