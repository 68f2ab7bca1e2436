"""A line of a log as people read it: `14:02:11 crawl   fetched https://example.org/ in .36 s  run_01a2`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

DONE = {
    "GateRequested": "searched the corpus",
    "CoverageProbed": "decided",
    "SearchDirected": "searched the web",
    "SearchCompleted": "read what was found",
    "CrawlDirected": "fetched",
    "PageCrawled": "read",
    "DocumentsSubmitted": "read documents",
    "FilesReceived": "read files",
    "DocumentChunked": "inspected and embedded",
    "ChunksPartlyEmbedded": "embedded the rest",
    "ChunksEmbedded": "appended to the journal",
    "DocumentIndexed": "published",
    "AnswerDirected": "answered",
}
"""What was done, by the kind of the event that was handled; any other is named by its kind."""
_SKIPPED = frozenset({"timestamp", "level", "event", "service", "logger", "run_id", "event_id", "trace_id", "span_id"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_MOST_CHARACTERS = 300


def story_of(line: Mapping[str, Any]) -> str:
    """Return a line of a log for people: its local time, where it is from, what happened, and its run."""
    told = _handled(line) if line.get("event") == "event_handled" else _generic(line)
    run = f"  {line['run_id']}" if line.get("run_id") else ""
    whose = str(line.get("stage") or str(line.get("service", "")).removeprefix("sluice-"))
    return f"{time_of(line)} {whose:<7} {_CONTROL.sub(' ', told)[:_MOST_CHARACTERS]}{run}"


def is_of_the_story(line: Mapping[str, Any]) -> bool:
    """Return whether `sluice up` shows it on the terminal: each event that was handled, and everything unusual."""
    if line.get("event") == "event_handled":
        return line.get("outcome") != "DeadLetter"  # a line of its own says so, with the error
    return line.get("level") != "info" or line.get("service") == "sluice-up"


def time_of(line: Mapping[str, Any]) -> str:
    """Return the local time of a line, to the second."""
    try:
        return f"{datetime.fromisoformat(str(line['timestamp'])).astimezone():%H:%M:%S}"
    except (KeyError, ValueError):
        return "--:--:--"


def _handled(line: Mapping[str, Any]) -> str:
    what = DONE.get(str(line.get("kind")), str(line.get("kind")))
    if line.get("plan"):
        what += f": {line['plan']}" + (f" ({', '.join(line['vetoes'])})" if line.get("vetoes") else "")
    what += f" {line['url']}" if line.get("url") else ""
    seconds = f"{line.get('duration_seconds', 0.0):.2f}".removeprefix("0") + " s"
    match line.get("outcome"):
        case "Done":
            gaps = ", ".join(f"{count} {reason}" for reason, count in (line.get("gaps") or {}).items())
            return f"{what} in {seconds}" + (f", without {gaps}" if gaps else "")
        case "Retry":
            return f"failed after {seconds}, again in {line.get('after_seconds')} s: {what}: {line.get('why')}"
        case outcome:
            return f"{outcome} after {seconds}: {what}" + (f": {line['why']}" if line.get("why") else "")


def _generic(line: Mapping[str, Any]) -> str:
    level = str(line.get("level", "info"))
    facts = " ".join(f"{name}={value}" for name, value in line.items() if name not in {*_SKIPPED, "stage", "exception"})
    told = f"{str(line.get('event')).replace('_', ' ')} {facts}".rstrip()
    return told if level == "info" else f"{level.upper()} {told}"
