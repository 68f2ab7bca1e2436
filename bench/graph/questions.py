"""Questions whose answer is one step of the graph away from what the question's words are found in.

    test → code       what the test exercises, told in the test's own words
    caller → callee   what is called by the code that does what its docstring says
    callee → caller   what uses the code that does what its docstring says
    class → base      what a class is derived from, told by what the class is
    code → page       the page that names the code, told by what the code does
    page → page       the page that is linked where it says this

They are made by rule from a tree and from what is true of it (`bench.graph.truth`), always the same ones. A question
stays where the answer has none of its rare words, those of at most a twentieth of the files: else no hop is needed.
"""

from __future__ import annotations

import ast
import hashlib
import html.parser
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urldefrag, urljoin

from bench.graph.trees import Tree
from bench.graph.truth import Callable_, Defined, Definition, Module

Kind = Literal["test → code", "caller → callee", "callee → caller", "class → base", "code → page", "page → page"]
KINDS: tuple[Kind, ...] = (
    "test → code",
    "caller → callee",
    "callee → caller",
    "class → base",
    "code → page",
    "page → page",
)
QUESTIONS_A_KIND = 40
"""Of one tree at most."""
ASKED: Mapping[Kind, str] = {
    "test → code": "Which code does the test exercise that says: {}?",
    "caller → callee": "What is called by the code that does this: {}?",
    "callee → caller": "What uses the code that does this: {}?",
    "class → base": "What is the class derived from that is described so: {}?",
    "code → page": "Which page names the code that does this: {}?",
    "page → page": "Which page is linked where it says: {}?",
}
QUESTIONS_AN_ANSWER = 2
"""With the same answer at most, so that a class of errors that all raise does not decide the figures."""
MOST_ANSWERS = 3
RARE_SHARE = 0.05
LEAST_WORDS = 4
WHOLE = 1_000_000
"""The last line of what is meant as a whole."""


class Question(NamedTuple):
    """What is asked, and the places that answer: each a file with the first and last line that count."""

    kind: Kind
    told: str
    answers: tuple[Definition, ...]
    start: Definition
    """Where the question's words are from: what a search by them may find, and which is no answer."""

    @property
    def text(self) -> str:
        """As it is asked."""
        return ASKED[self.kind].format(self.told)


@dataclass(frozen=True)
class Files:
    """The texts of a tree, and how many of them have each word."""

    texts: Mapping[str, str]
    frequency: Counter[str]

    @classmethod
    def of(cls, tree: Tree) -> Files:
        texts = {
            path.relative_to(tree.root).as_posix(): _plain(path.read_text(encoding="utf-8", errors="replace"), path)
            for path in tree.paths()
        }
        return cls(texts, Counter(word for text in texts.values() for word in words(text)))

    def needs_a_hop(self, told: str, answers: Sequence[Definition]) -> bool:
        """Whether no answer has a rare word of what the question tells."""
        most = max(2, RARE_SHARE * len(self.texts))
        rare = {word for word in words(told) if 0 < self.frequency[word] <= most}
        return bool(rare) and not any(rare & words(self.text_of(place)) for place in answers)

    def text_of(self, place: Definition) -> str:
        """The text of a place."""
        return "\n".join(self.texts.get(place.path, "").split("\n")[place.start - 1 : place.end])


def make_questions(tree: Tree, a_kind: int = QUESTIONS_A_KIND) -> list[Question]:
    """The questions of a tree, at most so many of each kind; always the same ones."""
    files = Files.of(tree)
    by_kind: defaultdict[Kind, dict[str, Question]] = defaultdict(dict)
    for question in (*_of_code(tree, files), *_of_pages(tree)):
        is_fair = all(place.path in files.texts and place.path != question.start.path for place in question.answers)
        if is_fair and len(question.told.split()) >= LEAST_WORDS and files.needs_a_hop(question.told, question.answers):
            by_kind[question.kind].setdefault(question.text, question)
    return [question for kind in KINDS for question in islice(_of_many_answers(by_kind[kind].values()), a_kind)]


def _of_many_answers(questions: Iterable[Question]) -> Iterator[Question]:
    """In an order that is drawn, without those whose answer was asked for often enough."""
    count: Counter[tuple[Definition, ...]] = Counter()
    for question in sorted(questions, key=lambda one: _draw(one.text)):
        count[question.answers] += 1
        if count[question.answers] <= QUESTIONS_AN_ANSWER:
            yield question


def _draw(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ENDING = re.compile(r"(?:ings?|ed|es|s|ers?|ly|e)$")


@lru_cache(maxsize=5_000)
def words(text: str) -> frozenset[str]:
    """The words of a text, those within identifiers too, without their endings."""
    return frozenset(_ENDING.sub("", word.lower()) for word in _WORD.findall(text) if len(word) > 2)


def _said(node: Defined) -> str:
    """The first sentence of a docstring, on one line; empty without one."""
    told = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", told)[0].rstrip(".")[:200]


def _of_code(tree: Tree, files: Files) -> Iterator[Question]:
    modules = [
        module for path in tree.paths() if path.suffix == ".py" and (module := Module.read(tree.root, path)) is not None
    ]
    callers: defaultdict[Definition, set[Definition]] = defaultdict(set)
    described: dict[Definition, str] = {}
    names: defaultdict[str, set[Definition]] = defaultdict(set)
    for module in modules:
        for node in module.definitions():
            place, told = module.lines_of(node), _said(node)
            if not module.is_test:
                described[place] = told
                names[node.name].add(place)
            if isinstance(node, ast.ClassDef):
                yield from _bases(module, node, place, told)
                continue
            called = {one for one in module.called(node) if not _is_test(one.path)}
            if module.is_test:
                yield from _tested(node, place, told, called)
                continue
            for one in called:
                callers[one].add(place)
            if told and 0 < len(called) <= MOST_ANSWERS:
                yield Question("caller → callee", told, _sorted(called), place)
    for place, using in callers.items():
        told = described.get(place, "")
        if told and len(using) <= MOST_ANSWERS:
            yield Question("callee → caller", told, _sorted(using), place)
    yield from _named_in_pages(files, names, described)


def _is_test(path: str) -> bool:
    return any(part in ("test", "tests") or part.startswith("test_") for part in path.split("/"))


def _sorted(places: Iterable[Definition]) -> tuple[Definition, ...]:
    return tuple(sorted(places))


def _tested(node: Callable_, place: Definition, told: str, called: set[Definition]) -> Iterator[Question]:
    if not node.name.startswith("test_") or not 0 < len(called) <= MOST_ANSWERS:
        return
    spoken = told or node.name.removeprefix("test_").replace("_", " ")
    yield Question("test → code", spoken, _sorted(called), place)


def _bases(module: Module, node: ast.ClassDef, place: Definition, told: str) -> Iterator[Question]:
    bases = {base for one in node.bases if (base := module.resolved(one)) is not None}
    if told and bases and not module.is_test:
        yield Question("class → base", told, _sorted(bases), place)


def _named_in_pages(
    files: Files, names: Mapping[str, set[Definition]], described: Mapping[Definition, str]
) -> Iterator[Question]:
    """Of each definition whose name only it has: the pages that have the name in backquotes."""
    pages = {path: text for path, text in files.texts.items() if path.endswith((".md", ".rst"))}
    named: defaultdict[str, set[str]] = defaultdict(set)
    for path, text in pages.items():
        for quoted in re.findall(r"`([\w.]+)(?:\(\))?`", text):
            named[quoted.rpartition(".")[2]].add(path)
    for name, places in names.items():
        (place, *others) = places
        told = described.get(place, "")
        if told and not others and len(name) > 4 and 0 < len(named.get(name, ())) <= MOST_ANSWERS:
            answers = tuple(Definition(path, 1, WHOLE) for path in sorted(named[name]))
            yield Question("code → page", told, answers, place)


def _of_pages(tree: Tree) -> Iterator[Question]:
    for path in tree.paths():
        own = path.relative_to(tree.root).as_posix()
        text = path.read_text(encoding="utf-8", errors="replace")
        for sentence, target in _LINKS.get(path.suffix, _no_links)(text):
            linked = _target(own, target)
            if linked and (tree.root / linked).is_file() and linked != own:
                yield Question("page → page", sentence, (Definition(linked, 1, WHOLE),), Definition(own, 1, WHOLE))


def _target(own: str, target: str) -> str | None:
    address = urldefrag(target)[0]
    if not address or re.match(r"[a-z]+:|/", address):
        return None
    return posixpath.normpath(urljoin(own, address))


def _no_links(text: str) -> Iterable[tuple[str, str]]:
    return ()


_MARKDOWN_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


def _markdown_links(text: str) -> Iterator[tuple[str, str]]:
    """The sentence around each link, without the link's text, and where it leads."""
    for paragraph in re.split(r"\n\s*\n", text):
        told = " ".join(paragraph.split())
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`\[])", told):
            for link in _MARKDOWN_LINK.finditer(sentence):
                around = f"{sentence[: link.start()]} {sentence[link.end() :]}"
                yield _without_marks(_MARKDOWN_LINK.sub(r"\1", around)), link[2]


def _without_marks(text: str) -> str:
    return " ".join(re.sub(r"[*_`|#]+", " ", text).split())[:300]


class _Paragraphs(html.parser.HTMLParser):
    """The paragraphs of a page: pieces of text, each with the link that it is the text of."""

    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: list[list[tuple[str, str | None]]] = []
        self._is_inside = False
        self._link: str | None = None

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if tag == "p":
            self.paragraphs.append([])
            self._is_inside = True
        elif tag == "a":
            self._link = dict(attrs).get("href")

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._is_inside = False
        elif tag == "a":
            self._link = None

    def handle_data(self, data: str) -> None:
        if self._is_inside:
            self.paragraphs[-1].append((data, self._link))


def _html_links(text: str) -> Iterator[tuple[str, str]]:
    parser = _Paragraphs()
    parser.feed(text)
    for pieces in parser.paragraphs:
        told = " ".join("".join(piece for piece, _ in pieces).split())
        for piece, link in pieces:
            if link and piece.strip() and "headerlink" not in link:
                for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", told):
                    if piece.strip() in sentence:
                        yield _without_marks(sentence.replace(piece.strip(), " ", 1)), link
                        break


_LINKS: Mapping[str, Callable[[str], Iterable[tuple[str, str]]]] = {".md": _markdown_links, ".html": _html_links}


def _plain(text: str, path: Path) -> str:
    return re.sub(r"<[^>]*>", " ", text) if path.suffix == ".html" else text
