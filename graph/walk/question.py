"""Reads from a question which symbols it names and which direction along the edges it asks for."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from sluice.graph.walk.nodes import Kind

MOST_NAMES = 16
"""Of one question, the first."""

_URL = re.compile(r"https?://[^\s<>\"'`)\]]+")
_PATH = re.compile(r"(?<![\w/.-])(?:[\w.-]+/)+[\w.-]*\w|(?<![\w/.-])[\w-]+\.[a-z]{1,4}\b(?!\()")
_DOTTED = re.compile(r"[^\W\d]\w*(?:(?:\.|::|#)[^\W\d]\w*)+")
_ABBREVIATION = re.compile(r"\w(?:\.\w)+")
_QUOTED = re.compile(r"`([^`\n]{1,120})`")
_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")
_SUFFIXES = re.compile(
    r"\.(?:py|pyi|js|jsx|ts|tsx|go|rs|java|c|h|cc|cpp|hpp|md|rst|txt|toml|yaml|yml|json|html|cfg|ini|sh|sql|lua)$"
)


class Named(NamedTuple):
    """A name in a question: `Session.get`, `workers/handlers.py`, `https://example.com/`."""

    text: str
    kind: str
    """`symbol`, `path` or `url`."""


def names_in(question: str) -> list[Named]:
    """Names in the order in which they stand, each once."""
    found: dict[Named, int] = {}

    def add(text: str, kind: str, position: int) -> None:
        named = Named(text, kind)
        found[named] = min(position, found.get(named, position))

    rest = question
    for match in _URL.finditer(rest):
        add(match[0].rstrip(".,;:!?"), "url", match.start())
    rest = _URL.sub(_blank, rest)
    for match in _PATH.finditer(rest):
        if "/" in match[0] or _SUFFIXES.search(match[0]):
            add(match[0].removeprefix("./"), "path", match.start())
            rest = rest[: match.start()] + " " * len(match[0]) + rest[match.end() :]
    for match in _QUOTED.finditer(rest):
        for inner in _DOTTED.finditer(match[1]):
            add(_dots(inner[0]), "symbol", match.start(1) + inner.start())
        for inner in _WORD.finditer(match[1]):
            add(inner[0], "symbol", match.start(1) + inner.start())
    for match in _DOTTED.finditer(rest):
        if not _ABBREVIATION.fullmatch(match[0]):
            add(_dots(match[0]), "symbol", match.start())
    for match in _WORD.finditer(rest):
        if _is_identifier(match[0], rest[match.end() : match.end() + 1]):
            add(match[0], "symbol", match.start())
    return sorted(found, key=lambda named: (found[named], named))[:MOST_NAMES]


def _is_identifier(word: str, following: str) -> bool:
    """Whether a word of prose is written as people write names in code: `snake_case`, `CamelCase`, `called(`."""
    inner = word.strip("_")
    has_hump = any(one.islower() and other.isupper() for one, other in pairwise(inner))
    return "_" in word or has_hump or following == "("


def _dots(name: str) -> str:
    return name.replace("::", ".").replace("#", ".")


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


class Wanted(NamedTuple):
    """Which way to go, and what is looked for there; None: the question does not say."""

    is_back: bool | None = None
    kind: Kind | None = None
    is_base: bool = False
    """Whether classes are asked for that are derived from one another."""
    is_far: bool = False
    """Whether the question goes two steps: what the code calls that a test exercises."""


_RELATES = (
    r"(?:calls?|uses?|invokes?|imports?|references?|needs?|wraps?|overrid\w+|extends?|inherits?|subclass(?:es)?"
    r"|implements?|derives?|depends?|rel(?:y|ies)|links?|points?|mentions?|names?|explains?|describes?|documents?"
    r"|utili[sz]es?|employs?|consumes?|triggers?|executes?|delegates?|targets?|speciali[sz]es?|makes? use of"
    r"|covers?|tests?|exercises?|checks?|verif(?:y|ies)|refers?|cites?|requires?|builds? on|talks? about)"
)
_DONE = (
    r"(?:called|used|invoked|imported|referenced|needed|wrapped|overridden|extended|inherited|subclassed|implemented"
    r"|utili[sz]ed|employed|consumed|triggered|executed|delegated|targeted|linked|pointed|mentioned|named|explained"
    r"|described|documented|covered|tested|exercised|checked|verified"
    r"|referred|cited|required|relied)"
)
_ASKS = r"\b(?:what|which|who|whose|where|find|list|show|all)\b"
_CLASS = r"(?:base[ -]?class(?:es)?|bases?|parents?(?: class(?:es)?)?|super-?class(?:es)?|ancestors?)"
_THING = r"(?:code|implementation|functions?|methods?|class(?:es)?|modules?|pages?)"
_FORWARD = re.compile(
    rf"\b(?:what|which|whose)\b.{{0,60}}\b(?:does|do|did)\b.+\b{_RELATES}\b"
    rf"|\b{_DONE}\s+(?:\w+\s+)?(?:by|in|from|inside|within)\b"
    rf"|\b(?:two|three|2|3) (?:links|steps|hops|calls|levels) (?:further|away|on|down)\b|\bwhat the tested {_THING}\b"
    r"|\b(?:what|which)\b.+\b(?:derived|inherits?|descended)\s+from\s*\??$|\b(?:what|which)\b.+\bderived from that\b"
    rf"|\b(?:callees?|dependenc(?:y|ies)|{_CLASS}) (?:of|for)\b"
    rf"|{_ASKS}.*\b(?:callees?|dependenc(?:y|ies)|helpers?|{_CLASS})\b"
    rf"|'s {_CLASS}\b|\bunder test\b|\blinked pages?\b|\bpages? (?:is|are) linked\b|\bbuilt on\b"
    r"|\b(?:outgoing|outbound) (?:links?|references?|calls?)\b|\bsee also\b|\bfollow (?:the|this|two) links?\b"
    r"|\bunder(?:neath| the hood)\b|\b(?:what|which)\b.+\bexecuted when\b|\bproduction code\b"
    rf"|\bmore on this\b|\bwhat `?[\w.]*[_.][\w.]*`?(?:\(\))? {_RELATES}\b"
    r"|\bread(?:ing)? (?:more|after|next|further)\b|\b(?:further|more) reading\b|\bnext pages?\b"
    r"|\btest\w*\b.*\b(?:fail(?:s|ing|ed)?|red|broken)\b|\b(?:fail(?:s|ing|ed)?|broken)\b.*\btest\w*"
    r"|\bbehind (?:the )?tests?\b|\bthat test\w*\s+(?:exercises?|covers?|checks?|tests?)\b"
    rf"|\b(?:code|implementation|functions?|class|module|method)\b.{{0,30}}\btests?\w* {_RELATES}\b"
)
_BACK_FIRST = re.compile(
    r"^\W*(?:how|is|are|where|by which)\b.+\b(?:tested|exercised|covered|verified)\b"
    rf"|^\W*where (?:is|are|was|were)\b.{{0,60}}\b(?!implemented\b){_DONE}\b|\btests? (?:hitting|against|around)\b"
    r"|\b(?:test )?coverage (?:of|for)\b|\b(?:incoming|inbound) (?:links?|references?|calls?)\b|\breferences to\b"
    rf"|\b(?:call[ -]?sites?|back[ -]?links?)\b|\b(?:every|any)thing that {_RELATES}\b"
    rf"|\b(?:all|code|functions|modules|pages|classes) that {_RELATES}\b"
    r"|\b(?:impact(?:ed)?|affected)\b.*\b(?:by|of) (?:chang|remov|renam|delet|drop)ing\b"
)
_BACK = re.compile(
    r"\b(?:callers?|usages?|uses|users|consumers?|dependents|dependants|referrers?|subclasses|descendants?|implementers?"
    r"|implementations|implementors?|overrides|backlinks?|tests?) (?:of|for|that cover|covering)\b"
    rf"|{_ASKS}.*\b(?:callers?|usages?|subclasses|dependents|implementations|backlinks?)\b"
    rf"|\b(?:who|what|which)\s+(?:\w+\s+){{0,3}}?{_RELATES}\b"
    rf"|\bwhere\b.{{0,40}}\b(?:is|are|was|gets?)\b.+\b(?!implemented\b){_DONE}\b|\bis\b.+\b{_DONE} (?:any|some)where\b"
    r"|\bbreaks?\b.{0,20}\bif\b|\bwhat\b.+\baffected\b|\bwhat\b.+\bderived from\b"
    rf"|\b(?:pages?|docs?|documentation|guides?|sections?) (?:that |which |to )?{_RELATES}\b"
    rf"|\bwhere (?:do|does)\b.+\b{_RELATES}\b"
)
_BASE = re.compile(
    rf"\b(?:{_CLASS}|subclass\w*|extends?|inherits?|derived|derives?|descendants?|implementations of|implements?"
    r"|implementers?)\b"
)
_FAR = re.compile(
    rf"\bunder(?:neath| the hood)\b.*\b{_DONE}\b|\bfollow two links\b"
    r"|\b(?:two|three|2|3) (?:links|steps|hops|calls|levels)\b|\b(?:transitively|indirectly|in turn)\b"
    rf"|\b(?:{_RELATES}|{_DONE})\b.*\b(?:that|which) (?:is|are|was|were|gets?) {_DONE}\b"
    r"|\b(?:callers?|callees?|users|helpers?|dependenc(?:y|ies)) (?:of|inside) (?:an? |the |its )?"
    rf"(?:{_DONE} {_THING}|callers?|callees?)\b"
    rf"|\bthe {_DONE} {_THING} {_RELATES}\b"
)
_TESTS = re.compile(r"\b(?:unit )?tests?\b|\btest\w*_\w+|\bspecs?\b|\b(?:tested|verified)\b")
_PAGES = re.compile(r"\b(?:docs?|documentation|pages?|guides?|manual|tutorials?|chapter|section|read|reading)\b")
_CLAUSES = re.compile(r"[:;]\s|\s[-–—]\s|[?!]\s|\.\s")
_LONGEST_CLAUSE = 300
"""Characters: in a longer one no relation is looked for, as that takes time by the square of its length."""
_QUOTATION = re.compile(r"[\"“][^\"“”]*[\"”]")


@lru_cache(maxsize=1_000)
def wanted_by(question: str) -> Wanted:
    """What a question asks for; of several clauses the shortest one that says so."""
    clauses = _CLAUSES.split(_QUOTATION.sub(" it ", question.lower()))
    for clause in sorted((clause for clause in clauses if len(clause) <= _LONGEST_CLAUSE), key=len):
        is_forward = not _BACK_FIRST.search(clause) and _FORWARD.search(clause)
        is_back = _BACK_FIRST.search(clause) or _BACK.search(clause)
        if is_forward or is_back:
            is_base = bool(_BASE.search(clause))
            kind = None if is_base else _kind(clause, is_back=not is_forward)
            return Wanted(not is_forward, kind, is_base, bool(_FAR.search(clause)))
    return Wanted()


def _kind(clause: str, *, is_back: bool) -> Kind | None:
    """What is looked for: back from code tests or pages, if these are named; forward from a test code."""
    if _PAGES.search(clause):
        return Kind.PAGE
    if _TESTS.search(clause):
        return Kind.TEST if is_back else Kind.CODE
    return None
