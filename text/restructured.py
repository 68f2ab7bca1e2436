"""Reads reStructuredText as Markdown: what a reader of the rendered page sees, each line under its own number.

Titles become headings, and so do directives with an argument (`.. function:: name(a, b)`, `.. setting:: NAME`), known
or not, one level for each directive around them; a symbol's name is given in full, with its module and class. Code is
fenced, terms of definition lists are bold, roles and references show their words. Comments, targets, options, raw HTML
and pictures are left out. Nothing that a directive names is opened. Promises: linear in the text; any text is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sluice.text.pattern_file import PatternFile

_FILE = PatternFile(Path(__file__).with_suffix(".toml"))
_RULE = re.compile(r"([!-/:-@\[-`{-~])\1*\s*\Z")
_TABLE_RULE = re.compile(r"(?:[=+|-][=+|\- ]{2,}|([=\-~^\"'*#+.:_`])\1{2,})\s*\Z")
_DIRECTIVE = re.compile(r"\.\. +(?:(?P<domain>\w+):{1,2}(?:\w+:)?)?(?P<name>\w[\w+.-]*)::(?:\s+(?P<argument>.*))?\Z")
_TARGET = re.compile(
    r"\.\. +_(?P<name>`[^`]{1,200}`|(?:[^:`\\]|\\.|:(?!\s|\Z)){1,200}):(?:\s+(?P<address>\S.{0,2000}))?\Z"
)
_REPLACED = re.compile(r"[ \t]*\.\. +\|([^|\n]{1,60})\|[ \t]+replace::[ \t]+(\S.{0,99})\Z")
_NOTE = re.compile(r"\.\. +(\[[\w#*.-]{1,60}\])(?:\s+|\Z)")
_ITEM = re.compile(r"(?:[-*+•]|\(?(?:\d{1,9}|[a-zA-Z#])[.)])(?:\s+|\Z)")
_FIELD = re.compile(r":(?![:\s])((?:[^:\\]|\\.|:(?![\s`])){1,200}):(?:\s+|\Z)")
_ENTRY = re.compile(r"(?:(?P<words>[^<>]{1,200}?)\s*<(?P<target>[^<>\s]{1,500})>|(?P<path>[\w./-]{1,500}))\Z")
_TICKS = re.compile(r"`{3,}")
_MARKED = re.compile(r"[`|_\\]")
_INLINE = re.compile(
    r"``(?P<literal>.{1,1000}?)``(?!`)"
    r"|:(?:(?P<domain>\w{1,30}):)?(?P<role>[\w+.-]{1,40}):`(?P<of>[^`]{1,1000})`"
    r"|(?<!\w)`(?P<words>[^`<>]{0,500}?)\s*<(?P<url>[^`<>]{1,2000})>`__?"
    r"|(?<!\w)`(?P<phrase>[^`<>\s][^`<>]{0,300})`__?(?!\w)"
    r"|(?P<note>\[[\w#*.-]{1,60}\])_(?!\w)"
    r"|\|(?P<name>[^|\s][^|]{0,59})\|(?:__?)?"
    r"|(?<![\w`:/.-])(?P<word>[A-Za-z0-9][\w.-]{0,80}?)__?(?![\w`])"
    r"|\\(?P<escaped>.)",
    re.DOTALL,
)
_EXPLICIT = re.compile(r"(?P<words>.*?)\s*<(?P<target>[^<>]+)>\Z", re.DOTALL)
_MARKS = re.compile(r"[`*]+|\\(?=[^\w\s])")

_MOST_BOXES = 60
"""Deepest nesting of lists; deeper items are words."""
_MOST_BEFORE = 20
"""Lines between a directive and the title that it is the target of."""


class Restructured(NamedTuple):
    """A text as Markdown, and its links: where their words start and end in it, and their addresses.

    An address is one of the web, a path, `label:name`, `target:name` for a label of the text itself, or
    `symbol:language:name`.
    """

    text: str
    title: str | None
    links: tuple[tuple[int, int, str], ...]


def is_restructured(text: str) -> bool:
    """Return whether the first 400 lines have a directive or a target, and none a fence of Markdown."""
    head = text[:100_000].split("\n", 400)[:400]
    marks = (line.strip() for line in head if ".. " in line)
    is_marked = any(_DIRECTIVE.match(line) or _TARGET.match(line) for line in marks)
    return is_marked and not any(line.startswith(("```", "# ")) for line in head)


def read_restructured(text: str) -> Restructured:
    """Return a text as Markdown; line n of the result is line n of `text`."""
    return _Reading(text.split("\n")).read()


def read_role(domain: str, role: str, text: str) -> tuple[str, str]:
    """Return the words that a role shows, and the address that it leads to, or an empty one."""
    explicit = _EXPLICIT.match(text)
    words, target = (explicit["words"], explicit["target"]) if explicit and explicit["words"] else (text, text)
    shown = words if explicit else words.lstrip("~!")
    if role in _FILE.words("symbols"):
        language = _FILE.tables["languages"].get(domain, "python")
        return shown, f"symbol:{language}:{target.lstrip('!~. ').removesuffix('()')}"
    if role in ("doc", "download"):
        return shown, target
    if role in ("ref", "numref"):
        return shown, f"label:{_label(target)}"
    if role in ("pep", "rfc"):
        return f"{role.upper()} {shown}", ""
    return (f"`{shown}`" if role in _FILE.words("literals") else shown), ""


class _Box(NamedTuple):
    """Lines indented by `indent` or more, shown behind `prefix`, in `depth` directives; `owner` is their class."""

    indent: int
    prefix: str = ""
    depth: int = 0
    owner: str = ""


class _Reading:
    def __init__(self, lines: list[str]) -> None:
        self._lines = [line.expandtabs(8).rstrip() for line in lines]
        self._shown = [""] * len(lines)
        self._code: set[int] = set()
        self._labels: list[tuple[int, str]] = []
        self._styles: list[str] = []
        self._title, self._level, self._module = -1, 0, ""
        self._boxes = [_Box(0)]
        replaced = (_REPLACED.match(line) for line in self._lines if "replace::" in line)
        self._replaced = {one[1]: one[2] for one in replaced if one}
        targets = (_TARGET.match(line.strip()) for line in self._lines if ".. _" in line)
        self._targets = {_label(one["name"]): one["address"] or "" for one in targets if one}

    def read(self) -> Restructured:
        number = 0
        while number < len(self._lines):
            number = (self._read_title(number) or self._read(number)) if self._lines[number] else number + 1
        links: list[tuple[int, int, str]] = []
        done, texts = 0, list[str]()
        starts: list[int] = []
        for first, last in self._paragraphs():
            is_code = first in self._code
            words = "\n".join(self._shown[first:last])
            if not is_code and _MARKED.search(words):
                words = self._inline(words, done, links)
            texts.append(words)
            for line in words.split("\n"):
                starts.append(done)
                done += len(line) + 1
        whole = "\n".join(texts)
        for number, address in self._labels:
            number = next((at for at in range(number, min(number + 10, len(starts))) if self._shown[at]), number)
            links.append((starts[number], starts[number], address))
        end = whole.find("\n", starts[self._title]) if self._title >= 0 else -1
        title = whole[starts[self._title] : end if end >= 0 else None].lstrip("# ") if self._title >= 0 else ""
        return Restructured(whole, _MARKS.sub("", title) or None, tuple(sorted(links)))

    def _paragraphs(self) -> Iterator[tuple[int, int]]:
        """Yield the first line, and the line after the last, of lines that are read together: prose, or one other."""
        first = 0
        while first < len(self._shown):
            last = first + 1
            if self._shown[first] and first not in self._code:
                while last < len(self._shown) and self._shown[last] and last not in self._code:
                    last += 1
            yield first, last
            first = last

    def _read_title(self, number: int) -> int:
        """Show a title that begins at the line; return the line after it, or 0 where there is none."""
        over = 1 if _RULE.match(self._lines[number]) else 0
        words, rule = (*self._lines[number + over : number + over + 2], "", "")[:2]
        if not _is_title(words, rule) or (over and self._lines[number][0] != rule[0]):
            return 0
        if not over and (words[0] == " " or (number and self._lines[number - 1])):
            return 0
        style = rule[0] * (1 + over)
        if style not in self._styles:
            self._styles.append(style)
        self._level = min(self._styles.index(style) + 1, 6)
        self._boxes = [_Box(0)]
        if self._title < 0:
            self._title = number + over
        self._shown[number + over] = "#" * self._level + " " + words.strip()
        return number + over + 2

    def _read(self, number: int) -> int:
        """Show the block or line that begins at a line; return the number of the next."""
        line = self._lines[number]
        indent = _indent(line)
        while self._boxes[-1].indent > indent:
            self._boxes.pop()
        if indent > self._boxes[-1].indent:
            self._boxes.append(self._boxes[-1]._replace(indent=indent))
        return self._content(number, indent, line[indent:], self._boxes[-1].prefix)

    def _content(self, number: int, indent: int, words: str, lead: str) -> int:
        """Show `words`, which stand at column `indent` of a line, after `lead`."""
        box = self._boxes[-1]
        if words == ".." or words.startswith(".. "):
            return self._explicit(number, indent, words, lead)
        if _TABLE_RULE.match(words):
            return number + 1
        if (item := _ITEM.match(words)) and len(self._boxes) < _MOST_BOXES:
            mark = "1. " if "#" in item[0] else item[0].strip().replace("•", "-") + " "
            inner = _Box(indent + len(item[0]), box.prefix + " " * len(mark), box.depth, box.owner)
            self._boxes.append(inner)
            rest = words[item.end() :]
            return self._content(number, inner.indent, rest, lead + mark) if rest else number + 1
        if field := _FIELD.match(words):
            if not any(self._styles):
                return self._end_of_block(number + 1, indent)
            self._boxes.append(box._replace(indent=indent + 1))
            words = f"{field[1]}: {words[field.end() :]}"
        following = self._lines[number + 1] if number + 1 < len(self._lines) else ""
        before = self._lines[number - 1] if number else ""
        if words.endswith("::") and not field:
            self._shown[number] = (lead + words[:-1]) if words != "::" else ""
            opened = number if words == "::" else number + 1
            return self._fenced(number + 1, indent, "", opened) if not following or words == "::" else number + 1
        starts = not before or _indent(before) > indent
        if (
            starts
            and following
            and _indent(following) > indent
            and lead == box.prefix
            and not field
            and "**" not in words
        ):
            words = f"**{words}**"  # a term above its definition
        self._shown[number] = lead + ("\\" if words.startswith("#") else "") + words
        return number + 1

    def _explicit(self, number: int, indent: int, words: str, lead: str) -> int:
        box = self._boxes[-1]
        if directive := _DIRECTIVE.match(words):
            return self._directive(number, indent, directive, lead)
        if note := _NOTE.match(words):
            self._boxes.append(box._replace(indent=indent + 1))
            self._shown[number] = f"{lead}{note[1]} {words[note.end() :]}"
            return number + 1
        if (target := _TARGET.match(words)) and not target["address"]:
            self._labels.append((number, f"target:{_label(target['name'])}"))
        is_empty = words == ".." and not "".join(self._lines[number + 1 : number + 2])
        return number + 1 if is_empty else self._end_of_block(number + 1, indent)

    def _directive(self, number: int, indent: int, found: re.Match[str], lead: str) -> int:
        """Show a directive's line; return the number of the first line of its body that is still to be read."""
        name, argument = found["name"].lower(), (found["argument"] or "").strip()
        box = self._boxes[-1]
        if name in _FILE.words("hidden"):
            if name == "include" and argument:
                self._labels.append((number, argument))
            return self._end_of_block(number + 1, indent)
        first = number + 1
        signatures = [argument] if argument else []
        while first < len(self._lines) and _indent(line := self._lines[first]) > indent:
            if not _FIELD.match(line.strip()):
                if not argument or name in _FILE.words("code") or name in _FILE.tables["labels"]:
                    break
                signatures.append(line.strip())
            first += 1
        if name in _FILE.words("code"):
            return self._fenced(first, indent, argument if name not in ("math", "parsed-literal") else name, number)
        end, inner = self._end_of_block(first, indent), box._replace(indent=indent + 1)
        self._boxes.append(inner)
        is_symbol = name in _FILE.words("described") and bool(argument)
        if name in ("toctree", "literalinclude"):
            return self._entries(first, end, argument, number, lead)
        is_bare_class = name == "class" and not found["domain"] and not any(self._lines[first:end])
        if is_bare_class and not any(letter.isupper() or letter in ".(" for letter in argument):
            return first  # docutils' own: the names of styles
        if is_symbol and name in ("module", "currentmodule"):
            self._module = argument
            self._labels.append((number, f"symbol:python:{argument}"))
        elif name in _FILE.tables["labels"]:
            label = _FILE.tables["labels"][name]
            words = f"{label} {argument}".strip()
            self._shown[number] = lead + (f"**{words}**" if words and not label else words)
        elif (
            signatures
            and (is_symbol or name not in _FILE.words("frames"))
            and not self._is_target_of_title(argument, first)
        ):
            owner = box.owner
            for at, signature in enumerate(signatures, number):
                if is_symbol:
                    signature = self._qualified(name, signature, box.owner)
                    language = _FILE.tables["languages"].get(found["domain"], "python")
                    self._labels.append((at, f"symbol:{language}:{_bare(signature)}"))
                    owner = _bare(signature) if name in _FILE.words("classes") else owner
                shown = f"`{signature}`" if is_symbol and "`" not in signature else signature
                level = min(self._level + box.depth + 1, 6)
                self._shown[at] = f"{lead}**{shown}**" if lead or at > number else f"{'#' * level} {shown}"
            self._boxes[-1] = inner._replace(depth=box.depth + bool(signatures), owner=owner)
        return first

    def _qualified(self, name: str, signature: str, owner: str) -> str:
        """Return a signature with its class or module before the name."""
        bare, prefix = _bare(signature), owner or self._module
        if bare.startswith(prefix.rpartition(".")[2] + "."):
            prefix = prefix.rpartition(".")[0]
        is_whole = not prefix or f"{bare}.".startswith(f"{prefix}.") or (name.startswith("auto") and "." in bare)
        place = signature.find(bare)
        return signature if is_whole or " " in bare else f"{signature[:place]}{prefix}.{signature[place:]}"

    def _is_target_of_title(self, argument: str, number: int) -> bool:
        """Return whether a title follows with only targets between, and repeats the argument of the directive above."""
        following = (at for at in range(number, min(number + _MOST_BEFORE, len(self._lines))) if self._lines[at])
        number = next((at for at in following if not self._lines[at].startswith(".. ")), number)
        words, rule = (*self._lines[number : number + 2], "", "")[:2]
        title, name = _MARKS.sub("", words.strip()).lower(), argument.lower()
        return _is_title(words, rule) and words[0] != " " and (title in name or name in title)

    def _entries(self, first: int, end: int, argument: str, number: int, lead: str) -> int:
        """Link to what a table of contents lists, or to the file that an inclusion names; show its entries."""
        if argument:
            self._labels.append((number, argument))
            return end
        for at in range(first, end):
            if entry := _ENTRY.match(self._lines[at].strip()):
                self._shown[at] = f"{lead}- {entry['words'] or entry['path']}"
                self._labels.append((at, entry["target"] or entry["path"]))
        return end

    def _fenced(self, first: int, indent: int, language: str, opened: int) -> int:
        """Show the lines from `first` on that are deeper than `indent` as code; line `opened` shows nothing else."""
        end = self._end_of_block(first, indent)
        body = [at for at in range(first, end) if self._lines[at]]
        if not body:
            return end if end > first else first
        prefix, cut = self._boxes[-1].prefix, min(_indent(self._lines[at]) for at in body)
        start, last = body[0], body[-1]
        code = [self._lines[at][cut:] for at in range(start, last + 1)]
        fence = "`" * max(3, 1 + max((len(run) for line in code for run in _TICKS.findall(line)), default=0))
        is_last = last + 2 >= len(self._lines)  # what follows the last line break is no line for a fence
        is_open = start - 1 == opened or not self._shown[start - 1]
        is_fenced = start > opened and is_open and not is_last and not self._lines[last + 1]
        self._shown[start : last + 1] = [prefix + ("" if is_fenced else "    ") + line if line else "" for line in code]
        self._code.update(range(start - 1, last + 2) if is_fenced else range(start, last + 1))
        if is_fenced:
            self._shown[start - 1] = f"{prefix}{fence}{language.partition(' ')[0]}"
            self._shown[last + 1] = prefix + fence
        return last + 2 if is_fenced else last + 1

    def _end_of_block(self, number: int, indent: int) -> int:
        """Return the line after the lines that are blank or indented deeper than `indent`."""
        while number < len(self._lines) and (not self._lines[number] or _indent(self._lines[number]) > indent):
            number += 1
        return number

    def _inline(self, words: str, start: int, links: list[tuple[int, int, str]]) -> str:
        """Return the words of a paragraph that begins at `start` as they show; add its links to `links`."""
        parts: list[str] = []
        length = done = 0
        for found in _INLINE.finditer(words):
            shown, address = self._shown_of(found)
            if shown == found[0] and not address:
                continue
            shown += "\n" * (found[0].count("\n") - shown.count("\n"))
            parts += (words[done : found.start()], shown)
            length += found.start() - done + len(shown)
            done = found.end()
            if address:
                links.append((start + length - len(shown), start + length - len(shown) + len(shown.rstrip()), address))
        return "".join((*parts, words[done:]))

    def _shown_of(self, found: re.Match[str]) -> tuple[str, str]:
        """Return what shows of a mark within a line, and the address that it leads to, or an empty one."""
        kind = str(found.lastgroup)
        if kind == "literal":
            ticks = "``" if "`" in found["literal"] else "`"
            return f"{ticks}{found['literal']}{ticks}", ""
        if kind == "of":
            return read_role(found["domain"] or "", found["role"], found["of"])
        if kind == "url":
            address = found["url"].strip()
            if address.endswith("_") and "/" not in address:
                address = self._targets.get(_label(address[:-1]), "")
            return found["words"] or address, address
        if kind in ("phrase", "word"):
            name = found[kind]
            if kind == "word" and _label(name) not in self._targets:
                return found[0], ""
            label = _label(name)
            is_plain = kind == "phrase" and not found[0].endswith("_")
            return (f"`{name}`", "") if is_plain else (name, self._targets.get(label) or f"label:{label}")
        if kind == "name":
            return self._replaced.get(found["name"], found[0]), ""
        if kind == "escaped":
            return "" if found[kind].isspace() else found[kind] if found[kind].isalnum() else found[0], ""
        return found[kind], ""


def _is_title(words: str, rule: str) -> bool:
    is_rule = bool(rule) and _RULE.match(rule) is not None and len(rule) >= min(4, len(words.strip()))
    return is_rule and len(rule) > 1 and bool(words.strip()) and not _RULE.match(words)


def _bare(signature: str) -> str:
    """Return the name of a signature: `shop.Cart.add` of `async shop.Cart.add(item) -> None`."""
    before = signature.partition("(")[0].strip().removeprefix("!")
    return before.rpartition(" ")[2] if "(" in signature else before.partition(" ")[0]


def _label(name: str) -> str:
    """Normalise a label: without case, runs of white space as one space (docutils, reference names)."""
    return " ".join(name.strip("`").casefold().split())


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
