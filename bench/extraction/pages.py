"""Pages with gold text: a folder that is given, this bench's own templates, and manuals beside their sources.

The gold text of a manual page is made of the source it was generated from (AsciiDoc for Git, reStructuredText for
Python), by taking that format's marks away: nothing of what is measured has a part in it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.extraction.score import Structure
from bench.extraction.templates import template_pages
from tests.support.repository import REPOSITORY

MANUALS = REPOSITORY / ".cache" / "manuals"
PACKAGES = ("git-doc", "python3.11-doc")
MOST_MANUAL_PAGES = 20
"""Of each manual."""
DOWNLOAD_SECONDS = 180

_GIT = "usr/share/doc/git/html"
_PYTHON = "usr/share/doc/python3.11/html"
_RST_DIRECTIVE = re.compile(r"\s*\.\. (?:([\w:-]+)::)?(.*)$")
_RST_OPTION = re.compile(
    r"\s*:(?:synopsis|platform|noindex|module|class|linenos|lineno-start|emphasize-lines|name|widths|header-rows):"
)
_RST_RULE = re.compile(r"\s*([=\-~^\"'*#+.])\1{2,}(?:\s+\1+)*\s*$")
_RST_UNSEEN = frozenset(
    ("index", "testsetup", "testcleanup", "sectionauthor", "moduleauthor", "module", "highlight", "only")
)
_RST_NAMELESS = frozenset(
    ("code-block", "sourcecode", "currentmodule", "versionadded", "versionchanged", "deprecated", "doctest", "testcode")
)


@dataclass(frozen=True)
class Page:
    """A page, the text that a reader would call its content, and the structure of that where it is known."""

    name: str
    kind: str
    html: str
    gold: str
    structure: Structure | None = None


def pages_in(folder: Path) -> list[Page]:
    """Every `NAME.html` that has a `NAME.txt` beside it, also in folders below; its own folder is its kind."""
    found = []
    for page in sorted((*folder.rglob("*.html"), *folder.rglob("*.htm"))):
        gold = page.with_suffix(".txt")
        if gold.is_file():
            found.append(Page(page.stem, page.parent.name, _read(page), _read(gold)))
    return found


def own_pages() -> list[Page]:
    """The templates, and what there is of the manuals."""
    own = [Page(name, kind, html, gold, structure) for name, kind, html, gold, structure in template_pages()]
    return [*own, *_manual_pages()]


def _manual_pages() -> Iterator[Page]:
    if not all((MANUALS / place).is_dir() for place in (_GIT, _PYTHON)) and not _download():
        print("manuals: skipped, apt-get cannot be had here")
        return
    yield from _some(_git_pages())
    yield from _some(_python_pages())


def _some(pages: Iterator[Page]) -> list[Page]:
    """Some from the whole range, the same each time."""
    every = [page for page in pages if 1_500 < len(page.gold) < 30_000]
    step = max(1, len(every) // MOST_MANUAL_PAGES)
    return every[::step][:MOST_MANUAL_PAGES]


def _download() -> bool:
    """Fetch and unpack the packages of the manuals, without installing them."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        return False
    MANUALS.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        fetched = subprocess.run(
            ["apt-get", "download", package], cwd=MANUALS, capture_output=True, timeout=DOWNLOAD_SECONDS
        )
        if fetched.returncode:
            return False
    for archive in MANUALS.glob("*.deb"):
        subprocess.run(["dpkg", "-x", archive.name, "."], cwd=MANUALS, check=True, timeout=DOWNLOAD_SECONDS)
        archive.unlink()
    return True


def _git_pages() -> Iterator[Page]:
    for page in sorted((MANUALS / _GIT).glob("git*.html")):
        source = page.with_suffix(".txt")
        # What a source includes from elsewhere is not in it, so there the gold text would lack what the page has.
        if source.is_file() and "include::" not in (text := _read(source)) and "ifdef::" not in text:
            yield Page(page.stem, "git manual", _read(page), _asciidoc_text(text))


def _python_pages() -> Iterator[Page]:
    root = MANUALS / _PYTHON
    for source in sorted((root / "_sources").rglob("*.rst.txt")):
        place = source.relative_to(root / "_sources")
        page = root / str(place).replace(".rst.txt", ".html")
        text = _read(source)
        if page.is_file() and "toctree::" not in text and "include::" not in text and "whatsnew" not in str(place):
            yield Page(str(place), "python manual", _read(page), _rst_text(text))


def _asciidoc_text(source: str) -> str:
    text = re.sub(r"^//.*$|^\[.*\]$|^[-=~^+.*_]{3,}$|^\+$|^:[\w-]+:.*$", "", source, flags=re.MULTILINE)
    text = re.sub(
        r"link(?:git)?:([\w./:#-]+)\[([^\]]*)\]",
        lambda found: f"{found[1]}({found[2]})" if found[2].isdigit() else found[2],
        text,
    )
    text = re.sub(r"<<([^,>]+),([^>]*)>>", r"\2", text)
    text = re.sub(
        r"\{(\w+)\}",
        lambda found: {"startsb": "[", "endsb": "]", "caret": "^", "litdd": "--", "apostrophe": "'"}.get(found[1], ""),
        text,
    )
    return re.sub(r"::$|[`*+]|(?<!\w)['_]|['_](?!\w)", " ", text, flags=re.MULTILINE)


def _rst_text(source: str) -> str:
    text = "\n".join(_rst_lines(source))
    text = re.sub(r":(?:\w+:)?\w+:`(?:[^`<\n]*<)?~?!?([^`>]*)>?`", r"\1", text)
    text = re.sub(r"`([^`<\n]+)<[^>\n]*>`_+", r"\1", text)
    return re.sub(r"[`*|]+", " ", text)


def _rst_lines(source: str) -> Iterator[str]:
    """The lines that the page shows: no comments, no options, no marks of directives."""
    unseen_indent = None
    for line in source.split("\n"):
        indent = len(line) - len(line.lstrip())
        if unseen_indent is not None and line.strip() and indent <= unseen_indent:
            unseen_indent = None
        if unseen_indent is not None or _RST_OPTION.match(line) or _RST_RULE.match(line):
            continue
        directive = _RST_DIRECTIVE.match(line)
        if directive and (directive[1] is None or directive[1] in _RST_UNSEEN):
            unseen_indent = indent
        elif directive:
            yield "" if directive[1] in _RST_NAMELESS else directive[2]
        else:
            yield line


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
