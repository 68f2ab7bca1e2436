"""Reads one PDF in a process of its own: the file on standard input, JSON on standard output.

    python -I -B pdf_reader.py CPU_SECONDS ADDRESS_SPACE_BYTES MOST_PAGES MOST_CHARS

It imports nothing of ours, so that it starts quickly and has nothing to lose. The answer is one object, either
`{"pages": […], "title": …, "author": …, "created": …}` or `{"failure": "encrypted" | "memory" | "characters" |
"damaged", "detail": …}`. A file that takes more processor time than it may has no answer: the kernel ends the process.
"""

from __future__ import annotations

import importlib
import json
import logging
import resource
import sys
from io import BytesIO
from typing import Any


class TooMuchText(Exception):
    """The pages hold more characters than they may."""


def main() -> None:
    """Read the file within the limits of the command line, and answer."""
    cpu_seconds, address_space_bytes, most_pages, most_chars = map(int, sys.argv[1:])
    body = sys.stdin.buffer.read()
    importlib.import_module("pypdf")  # before memory is short, so that a library is never what it is short for
    _limit(cpu_seconds, address_space_bytes)
    try:
        answer = read(body, most_pages, most_chars)
    except MemoryError:
        answer = {"failure": "memory", "detail": ""}
    except TooMuchText:
        answer = {"failure": "characters", "detail": ""}
    except Exception as error:  # noqa: BLE001 - whatever a damaged file makes of the reader, it is the file
        answer = {"failure": "damaged", "detail": f"{type(error).__name__}: {error}"[:300]}
    sys.stdout.write(json.dumps(answer))


def read(body: bytes, most_pages: int, most_chars: int) -> dict[str, Any]:
    """The text of every page and what the file says of itself; only the first `most_pages` are read."""
    from pypdf import PdfReader

    # pypdf logs every oddity of a damaged file; what matters is raised.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = PdfReader(BytesIO(body))
    if reader.is_encrypted and not reader.decrypt(""):
        return {"failure": "encrypted", "detail": ""}
    pages: list[str] = []
    chars = 0
    for page, _ in zip(reader.pages, range(most_pages), strict=False):
        pages.append(page.extract_text())
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


def _created(facts: Any) -> str | None:
    try:
        moment = facts.creation_date if facts else None
    except ValueError:
        return None
    return moment.isoformat() if moment else None


def _limit(cpu_seconds: int, address_space_bytes: int) -> None:
    """Let the kernel end what takes too much; a second after SIGXCPU comes SIGKILL. No file is written."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes, address_space_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
