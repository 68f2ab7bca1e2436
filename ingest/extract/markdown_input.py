"""Removes the parts of Markdown that rendering hides: comments, and HTML elements with hiding attributes.

It also removes link titles, alternative texts of images, definitions that serve as comments, and all front
matter but the facts that a page shows.

Code is shown, and stays. Lines keep their numbers: removed text leaves its line breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.ingest.extract.css.visibility import hides

_FENCE = re.compile(r"[ \t>]*(?:[-*+>][ \t]+)*(`{3,}|~{3,})([^\n]*)")
_TICKS = re.compile(r"`+")
_MARKUP = re.compile(r"<!--.*?(?:-->|\Z)|<(?P<closes>/?)(?P<tag>[a-zA-Z][\w-]*)(?P<attributes>[^<>]*)>", re.DOTALL)
_ATTRIBUTE = re.compile(r"""([\w-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_TITLE = r"""(?:"[^"]*"|'[^']*'|\([^()]*\))"""
_UNSEEN = re.compile(
    rf"(?P<target>\]\([^()\s]*)\s+{_TITLE}\s*\)"
    rf"|^(?P<definition> {{0,3}}\[[^\]\n]+\]:[ \t]*\S+)[ \t]*\n?[ \t]*{_TITLE}[ \t]*$"
    r"|!\[[^\]\n]+(?=\]\()",
    re.MULTILINE,
)
_COMMENT_DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]+\]:[ \t]*(?:#|<>|<#>)(?=\s|$)")
_FACT = re.compile(r"^[\w\"'-][^\n:]{0,80}:", re.MULTILINE)
FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_SHOWN_FACT = re.compile(r"(?:title|author|date|lang|language)\s*:", re.IGNORECASE)
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
_NEVER_SHOWN = frozenset(("script", "style", "template", "noscript"))


def without_hidden_html(text: str) -> str:
    """Return `text` as a reader of the rendered page would see it. Linear in the text."""
    text = _without_unseen(_without_front_matter(text))
    if "<" not in text:
        return text
    return "".join(_shown(text))


def _without_front_matter(text: str) -> str:
    found = FRONT_MATTER.match(text)
    if found is None or not _FACT.search(found[1]):  # two rules with text between them
        return text
    lines = [line if _SHOWN_FACT.match(line) else "" for line in found[1].split("\n")]
    return text[: found.start(1)] + "\n".join(lines) + text[found.end(1) :]


def _without_unseen(text: str) -> str:
    """Remove the invisible parts of links and images; code stays unchanged."""
    if "](" not in text and "]:" not in text:
        return text
    code = list(_code(text))
    parts: list[str] = []
    done = number = 0
    for found in _UNSEEN.finditer(text):
        start, end = found.span()
        while number < len(code) and code[number][1] <= start:
            number += 1
        if number < len(code) and code[number][0] <= start:
            continue
        parts += (text[done:start], _seen(found), "\n" * found[0].count("\n"))
        done = end
    return "".join((*parts, text[done:]))


def _seen(found: re.Match[str]) -> str:
    if found["target"] is not None:
        return f"{found['target']})"
    if found["definition"] is None:
        return "!["
    return "" if _COMMENT_DEFINITION.match(found["definition"]) else found["definition"]


def _shown(text: str) -> Iterator[str]:
    code = list(_code(text))
    done = 0
    hidden = ""
    depth = 0
    for start, found in _markup_outside(text, code):
        if not depth:
            yield text[done:start]
            done = start
        if found["tag"] is None:
            if not depth:
                yield "\n" * found[0].count("\n")
                done = found.end()
            continue
        tag = found["tag"].lower()
        if depth:
            depth += (tag == hidden) * (-1 if found["closes"] else 1)
            if not depth:
                yield "\n" * text.count("\n", done, found.end())
                done = found.end()
        elif not found["closes"] and tag not in _VOID and (tag in _NEVER_SHOWN or _is_hidden(found["attributes"])):
            hidden, depth = tag, 1
    yield "\n" * text.count("\n", done) if depth else text[done:]


def _code(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of code: fenced blocks, an unclosed one to the end, and inline code."""
    start = offset = 0
    fence = ""
    for line in text.split("\n"):
        if fence:
            bare = line.strip(" \t>")
            if len(bare) >= len(fence) and not bare.strip(fence[0]):
                yield start, offset + len(line)
                fence = ""
        elif (opening := _FENCE.match(line)) and not (opening[1][0] == "`" and "`" in opening[2]):
            fence, start = opening[1], offset
        elif "`" in line:
            for begin, end in _code_in(line):
                yield offset + begin, offset + end
        offset += len(line) + 1
    if fence:
        yield start, len(text)


def _code_in(line: str) -> Iterator[tuple[int, int]]:
    """Yield ranges from a run of backticks to the next of the same length (CommonMark 0.31, section 6.1)."""
    runs = [(found.start(), found.end()) for found in _TICKS.finditer(line)]
    later: dict[int, list[int]] = {}
    for start, end in reversed(runs):
        later.setdefault(end - start, []).append(start)
    done = 0
    for start, end in runs:
        same = later[end - start]
        while same and same[-1] <= start:
            same.pop()
        if start >= done and same:
            done = same[-1] + end - start
            yield start, done


def _markup_outside(text: str, code: list[tuple[int, int]]) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield comments and tags outside code, in order."""
    at = number = 0
    while found := _MARKUP.search(text, at):
        start = found.start()
        while number < len(code) and code[number][1] <= start:
            number += 1
        if number < len(code) and code[number][0] <= start:
            at = code[number][1]
            continue
        yield start, found
        at = found.end()


def _is_hidden(attributes: str) -> bool:
    for name, *values in _ATTRIBUTE.findall(attributes):
        value = "".join(values)
        match name.lower():
            case "hidden":
                return True
            case "aria-hidden":
                if value.strip().lower() == "true":
                    return True
            case "style":
                if hides(value):
                    return True
    return False
