"""One contestant, in a process of its own: reads a file of pages, answers with their texts and processor seconds.

    python contestant.py NAME PAGES ANSWERS

PAGES and ANSWERS hold one JSON object per line: {"html"} and {"text", "seconds"}. Started by bench.extraction with the
interpreter that has the contestant.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

WARM_UP_PAGES = 5
URL = "https://site.example/page"


def sluice() -> Callable[[str], str]:
    from sluice.ingest.extract.extract import extract

    return lambda page: extract(page.encode("utf-8", "replace"), "text/html", charset="utf-8", url=URL).text


def trafilatura() -> Callable[[str], str]:
    from trafilatura import extract

    return lambda page: extract(page, url=URL) or ""


def trafilatura_fast() -> Callable[[str], str]:
    from trafilatura import extract

    return lambda page: extract(page, url=URL, fast=True, include_comments=False) or ""


def trafilatura_markdown() -> Callable[[str], str]:
    from trafilatura import extract

    return lambda page: extract(page, url=URL, output_format="markdown", with_metadata=True, include_links=False) or ""


def resiliparse() -> Callable[[str], str]:
    from resiliparse.extract.html2text import extract_plain_text

    return lambda page: extract_plain_text(page, main_content=True) or ""


CONTESTANTS = {
    function.__name__: function
    for function in (sluice, trafilatura, trafilatura_fast, trafilatura_markdown, resiliparse)
}


def main() -> None:
    """Extract every page, the first ones once before."""
    name, source, target = sys.argv[1:]
    extract = CONTESTANTS[name]()
    pages = [json.loads(line)["html"] for line in Path(source).read_text().splitlines()]
    for page in pages[:WARM_UP_PAGES]:
        extract(page)
    with Path(target).open("w") as answers:
        for page in pages:
            started = time.process_time()
            text = extract(page)
            seconds = time.process_time() - started
            answers.write(json.dumps({"text": text, "seconds": seconds}) + "\n")


if __name__ == "__main__":
    main()
