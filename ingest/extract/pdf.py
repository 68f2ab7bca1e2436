"""Extracts text from PDF by PDFium: pages parted by form feeds, with the title and author of the metadata.

A file of some kilobytes can need hours of work and gigabytes of text, so a child process (ingest/extract/pdf_child.py)
reads it, with limits that the kernel enforces. Every end of the child has an error, and no child is left behind.

| what happens | what is raised |
|---|---|
| the file is damaged or encrypted | `InvalidInput` |
| it takes more processor time than its size warrants, more memory, or holds more text than is kept | `InvalidInput` |
| it makes the reader crash | `InvalidInput` |
| the child does not start, or is killed from outside | `Unavailable`: another try may succeed |

Lines that the page's width broke are joined again, so that a passage reads as a sentence.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from datetime import UTC, datetime
from typing import Any

from sluice.contracts.errors import InvalidInput, Unavailable
from sluice.disk.jail import child_command
from sluice.ingest.extract.extracted import Extracted
from sluice.ingest.extract.media_types import PDF
from sluice.text.hidden import visible

PAGE_BREAK = "\f"
MOST_PAGES = 2_000
MOST_CHARS = 10_000_000
"""Most characters of all pages together: 2,000 pages of 5,000 characters, more than any book has."""
CPU_SECONDS = 5
"""Processor time for any file, the half second for starting included."""
CPU_SECONDS_PER_MEGABYTE = 20
"""A text needs some five: 35 ms per page of 7 KB."""
MOST_CPU_SECONDS = 60
WALL_SECONDS = 90.0
"""Longest time for a file on a shared processor: less than a chunk worker waits for its child."""
ADDRESS_SPACE_BYTES = 700_000_000
"""Limit of the child: the longest text that is kept, out of the largest file, takes 110 MB of memory. A container of 1
GB must hold the worker beside it."""
COMMAND = tuple(child_command("sluice.ingest.extract.pdf_child"))

_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
"""Numpy would reserve memory for each processor."""
_PAGE_CHARS = 100
"""A page with less text on average is more likely a scan than a text."""
_HYPHENATED = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_BROKEN_LINE = re.compile(r"(?<=[\w,;])[ \t]*\n(?=[a-z(])")
_DATE = re.compile(r"D:(\d{4}(?:\d\d){0,5})(Z|[+-]\d\d'\d\d)?")
_SPLIT_IT = "split or convert it"


def extract_pdf(body: bytes) -> Extracted:
    """Extract the text of every page.

    Raises InvalidInput, naming the cause, if the file is damaged, encrypted or exceeds a limit, and Unavailable if the
    process that reads it could not be started.
    """
    answer = _answer(body)
    pages = [_page_text(page) for page in answer["pages"]]
    text = f"\n{PAGE_BREAK}\n".join(pages)
    chars = sum(map(len, pages))
    return Extracted(
        text=text if chars else "",
        media_type=PDF,
        form="pages",
        title=_fact(answer["title"]),
        author=_fact(answer["author"]),
        published_at=_moment(answer["created"]),
        confidence=round(min(1.0, chars / max(1, len(pages)) / _PAGE_CHARS), 3),
    )


def _answer(body: bytes) -> dict[str, Any]:
    """Run the child on the file and return its answer."""
    cpu_seconds = min(MOST_CPU_SECONDS, CPU_SECONDS + len(body) * CPU_SECONDS_PER_MEGABYTE // 1_000_000)
    limits = (cpu_seconds, ADDRESS_SPACE_BYTES, MOST_PAGES, MOST_CHARS)
    command = [*COMMAND, *map(str, limits)]
    try:
        ended = subprocess.run(  # noqa: S603 - our own command line
            command, input=body, capture_output=True, timeout=WALL_SECONDS, check=False, cwd="/", env=_ENVIRONMENT
        )
    except subprocess.TimeoutExpired as error:  # `run` has killed and reaped it
        raise _too_slow(WALL_SECONDS) from error
    except OSError as error:
        raise Unavailable(f"the process that reads a PDF did not start: {error}") from error
    if ended.returncode == -signal.SIGXCPU:
        raise _too_slow(cpu_seconds)
    if ended.returncode:
        raise _death(ended.returncode, ended.stderr)
    return _success(json.loads(ended.stdout))


def _success(answer: dict[str, Any]) -> dict[str, Any]:
    match answer.get("failure"):
        case None:
            return answer
        case "encrypted":
            raise InvalidInput("body", "the PDF is encrypted", "send it without a password")
        case "characters":
            raise InvalidInput("body", f"the PDF holds more than {MOST_CHARS} characters", _SPLIT_IT)
        case "memory":
            raise InvalidInput("body", f"the PDF needs more than {ADDRESS_SPACE_BYTES} bytes of memory", _SPLIT_IT)
        case _:
            raise InvalidInput("body", f"the PDF cannot be read: {answer['detail']}", "repair or convert it")


def _too_slow(seconds: float) -> InvalidInput:
    return InvalidInput("body", f"the PDF takes more than {seconds:g} s to read", _SPLIT_IT)


def _death(status: int, complaint: bytes) -> InvalidInput | Unavailable:
    """Return the error for the child's death: a kill says nothing about the file, a crash does."""
    how = signal.Signals(-status).name if status < 0 else f"status {status}"
    if status in (-signal.SIGKILL, -signal.SIGTERM):
        return Unavailable(f"the process that reads a PDF was ended by {how}")
    last_line = complaint.decode(errors="replace").strip().rpartition("\n")[2]
    if "MemoryError" in last_line:
        return InvalidInput("body", f"the PDF needs more than {ADDRESS_SPACE_BYTES} bytes of memory", _SPLIT_IT)
    why = last_line[:300] or f"it is damaged, or needs more than {ADDRESS_SPACE_BYTES} bytes of memory"
    return InvalidInput("body", f"the PDF makes its reader end with {how}: {why}", "repair, split or convert it")


def _page_text(text: str) -> str:
    text = visible(text).replace(PAGE_BREAK, "\n").strip()
    return _BROKEN_LINE.sub(" ", _HYPHENATED.sub("", text))


def _moment(created: str | None) -> datetime | None:
    """Return the time of a date such as `D:20240102030405+01'00'` (ISO 32000-2, 7.9.4). Without a zone it is UTC."""
    found = _DATE.match(created or "")
    if found is None:
        return None
    digits, zone = found[1] + "0101000000"[len(found[1]) - 4 :], (found[2] or "Z").replace("'", "")
    try:
        return datetime.strptime(digits + zone, "%Y%m%d%H%M%S%z").astimezone(UTC)
    except ValueError:
        return None


def _fact(value: str | None) -> str | None:
    return (" ".join(visible(value).split()) or None) if value else None
