"""What extraction makes of a body: readable text and the facts around it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Form = Literal["markdown", "text", "pages", "code"]


@dataclass(frozen=True, slots=True)
class Link:
    """A link that a reader could follow: absolute http(s) URL without fragment."""

    url: str
    text: str
    nofollow: bool = False


@dataclass(frozen=True, slots=True)
class Extracted:
    """Readable text and its facts. Every fact is what the document says of itself, or None.

    `form` tells how `text` is structured: Markdown, plain text, pages parted by form feeds, or source
    code in `code_language`. `language` is the declared natural language (two letters).
    `confidence` in [0, 1] says how surely `text` is the content: near 0 for the empty shell of a page
    that is built by its scripts, or for a scanned PDF.
    """

    text: str
    media_type: str
    form: Form
    title: str | None = None
    language: str | None = None
    published_at: datetime | None = None
    author: str | None = None
    canonical_url: str | None = None
    links: tuple[Link, ...] = ()
    confidence: float = 1.0
    code_language: str | None = None
