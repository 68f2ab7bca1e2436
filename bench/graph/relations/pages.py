"""Relations of pages in Markdown and reStructuredText: what they link to, and the definitions that they name."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from bench.graph.relations.relation import WHOLE, Relation, Thing
from bench.graph.truth import Definition

PAGES = (".md", ".rst", ".txt")
_MARKDOWN_LINK = re.compile(r"\[([^\]]+)\](?:\(([^)\s]+)[^)]*\)|\[([^\]]*)\])")
_REFERENCE = re.compile(r"^ {0,3}\[([^\]]+)\]:\s*(\S+)", re.MULTILINE)
_ROLE = re.compile(r":(doc|ref):`(?:([^`<]*)<([^`>]+)>|([^`]+))`")
_LABEL = re.compile(r"^\.\. _([^:\n]+):\s*$", re.MULTILINE)
_NAMED = re.compile(
    r":(?:py:)?(?:func|meth|class|exc|mod|attr):`[~!]?([\w.]+)(?:\(\))?`|(?<!`)``?([\w.]+)(?:\(\))?``?(?!`)"
)
_FRONT = re.compile(r"---\n(?:[^\n]+\n)*?title: *(?P<hash>[^\n]+)(?P<under>)")
_HEADING = re.compile(
    r"^(?:#{1,2} +(?P<hash>[^\n#{]+)|(?P<under>[^\s.#|:][^\n]{2,80})\n(?:={3,}|-{3,}|\*{3,}))", re.MULTILINE
)


def pages_of(texts: dict[str, str]) -> dict[str, Thing]:
    """The pages by their paths; each is called by its first heading."""
    found: dict[str, Thing] = {}
    for path, text in texts.items():
        if path.endswith(PAGES):
            heading = _FRONT.match(text) or _HEADING.search(text)
            title = _plain(heading["hash"] or heading["under"]) if heading else ""
            found[path] = Thing(title, Definition(path, 1, WHOLE), title, "page")
    return found


def page_relations(texts: dict[str, str], things: Iterable[Thing]) -> Iterator[Relation]:
    """`links` from page to page with the sentence around the link, and `names` from page to what it names."""
    pages = pages_of(texts)
    labels = {label.lower(): path for path in pages for label in _LABEL.findall(texts[path])}
    for path, page in pages.items():
        links = _markdown(texts[path]) if path.endswith(".md") else _roles(texts[path], labels)
        for told, target in links:
            address = target if target in pages else _beside(path, target, pages)
            if address is not None and address != path:
                yield Relation("links", page, pages[address], told)
    by_name: defaultdict[str, list[Thing]] = defaultdict(list)
    for thing in things:
        if thing.kind in ("function", "class"):
            by_name[thing.name.rpartition(".")[2]].append(thing)
    for path, page in pages.items():
        named = {name.rpartition(".")[2] for pair in _NAMED.findall(texts[path]) for name in pair if name}
        for name in sorted(named):
            if len(by_name.get(name, ())) == 1 and len(name) > 4:
                yield Relation("names", page, by_name[name][0])


def _beside(own: str, target: str, pages: dict[str, Thing]) -> str | None:
    address = target.partition("#")[0].partition("?")[0]
    if not address or re.match(r"[a-z]+:", address):
        return None
    base = posixpath.dirname(own)
    for start in (base, *_parents(base)) if address.startswith("/") else (base,):
        whole = posixpath.normpath(posixpath.join(start, address.lstrip("/")))
        for end in ("", ".rst", ".md", ".txt", "/index.md", "/index.rst"):
            if whole + end in pages:
                return whole + end
    return None


def _parents(folder: str) -> list[str]:
    parts = folder.split("/")
    return ["/".join(parts[:end]) for end in range(len(parts) - 1, -1, -1)]


def _markdown(text: str) -> Iterator[tuple[str, str]]:
    references = {name.lower(): target for name, target in _REFERENCE.findall(text)}
    for sentence in _sentences(text):
        for link in _MARKDOWN_LINK.finditer(sentence):
            target = link[2] or references.get((link[3] or link[1]).lower(), "")
            if target:
                around = f"{sentence[: link.start()]} {sentence[link.end() :]}"
                yield _plain(_MARKDOWN_LINK.sub(r"\1", around)), target


def _roles(text: str, labels: dict[str, str]) -> Iterator[tuple[str, str]]:
    for sentence in _sentences(text):
        for link in _ROLE.finditer(sentence):
            target = (link[3] or link[4]).strip()
            target = labels.get(target.lower(), "") if link[1] == "ref" else target
            if target:
                around = f"{sentence[: link.start()]} {sentence[link.end() :]}"
                yield _plain(_ROLE.sub(r"\2", around)), target


def _sentences(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        yield from re.split(r"(?<=[.!?])\s+(?=[A-Z`\[:])", " ".join(paragraph.split()))


def _plain(text: str) -> str:
    text = re.sub(r":[\w:]+:`[~!]?([^`<]*)(?:<[^`>]*>)?`", r"\1", text)
    return " ".join(re.sub(r"[*_`|#\[\]]+|\{[^}]*\}", " ", text).split())[:300]
