"""Extracts XML: an RSS or Atom feed as Markdown, one section per item; any other XML as text, line by line.

Entities are not resolved and nothing is loaded from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from lxml import etree

from sluice.ingest.extract.extracted import Extracted, LinkedWords
from sluice.ingest.extract.html.extract_html import extract_fragment
from sluice.ingest.extract.html.metadata import parse_moment, resolve
from sluice.ingest.extract.media_types import XML
from sluice.text.hidden import visible

_MOST_ITEMS = 1_000
_BETWEEN = "\n\n"
_BODY_NAMES = ("encoded", "content", "description", "summary")
_DATE_NAMES = ("pubDate", "published", "updated", "date")


def extract_xml(text: str, url: str | None) -> Extracted:
    """Extract the feed or document `text`, fetched from `url`. Malformed XML is read as far as possible."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, huge_tree=False, remove_pis=True)
    root = etree.fromstring(text.encode("utf-8", "replace"), parser=parser) if text.strip() else None
    if root is None:
        return Extracted(text=visible(text).strip(), media_type=XML, form="text", confidence=0.1)
    items = list(islice(_items(root), _MOST_ITEMS))
    return _feed(root, items, url) if items else _document(root)


def _items(root: etree._Element) -> Iterator[etree._Element]:
    """Yield the outermost items; a nested item is part of its parent's text, and read once."""
    walk = etree.iterwalk(root, events=("start",))
    for _, node in walk:
        if _local(node) in ("item", "entry"):
            walk.skip_subtree()
            yield node


def _document(root: etree._Element) -> Extracted:
    lines = (" ".join(part.split()) for part in root.itertext())
    text = visible("\n".join(line for line in lines if line))
    return Extracted(text=text, media_type=XML, form="text", confidence=1.0 if text else 0.0)


def _feed(root: etree._Element, items: list[etree._Element], url: str | None) -> Extracted:
    channel = next((node for node in root.iter() if _local(node) == "channel"), root)
    title = _first(channel, ("title",))
    sections = [f"# {title}"] if title else []
    linked_words: list[LinkedWords] = []
    done = sum(len(section) + len(_BETWEEN) for section in sections)
    for item in items:
        start, heading = done + len("## "), _first(item, ("title",)) or "Untitled"
        if address := _address(item, url):
            linked_words.append(LinkedWords(start, start + len(heading), address))
        sections.append(_section(item, heading, url))
        done += len(sections[-1]) + len(_BETWEEN)
    return Extracted(
        text=_BETWEEN.join(sections),
        media_type=XML,
        form="markdown",
        title=title or None,
        language=_first(channel, ("language",))[:2].lower() or None,
        published_at=next((moment for moment in map(_published, items) if moment), None),
        linked_words=tuple(linked_words),
    )


def _section(item: etree._Element, heading: str, url: str | None) -> str:
    published = _published(item)
    parts = [f"## {heading}", published.date().isoformat() if published else "", _body(item, url)]
    return "\n\n".join(part for part in parts if part)


def _body(item: etree._Element, url: str | None) -> str:
    raw = _first(item, _BODY_NAMES, keep_space=True)
    if "<" not in raw:
        return raw.strip()
    # Headings inside an item would break out of its section.
    lines = extract_fragment(raw, url).splitlines()
    return "\n".join(f"**{line.lstrip('# ')}**" if line.startswith("#") else line for line in lines)


def _published(item: etree._Element) -> datetime | None:
    return next((moment for name in _DATE_NAMES if (moment := parse_moment(_first(item, (name,))))), None)


def _address(item: etree._Element, url: str | None) -> str | None:
    for node in item:
        if _local(node) == "link" and node.get("rel", "alternate") == "alternate":
            return resolve(node.get("href") or (node.text or "").strip(), url)
    return None


def _first(node: etree._Element, names: tuple[str, ...], *, keep_space: bool = False) -> str:
    for name in names:
        for child in node:
            if _local(child) == name:
                text = visible("".join(child.itertext()))
                return text if keep_space else " ".join(text.split())
    return ""


def _local(node: etree._Element) -> str:
    return etree.QName(node).localname if isinstance(node.tag, str) else ""
