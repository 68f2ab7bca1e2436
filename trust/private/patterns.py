"""Finds private data and secrets in a text by patterns and check digits: kinds and places, never a copy of a value.

Where two finds overlap, the more specific kind is kept (a secret before an e-mail address in it), then the longer one.

Rules for secrets are read from the two files in `rules/`: those of gitleaks and the project's own. A rule is applied to
texts that hold one of its keywords. A match is a secret unless its entropy is at or below the rule's floor, or an
allow-list of the rule or its file holds it (placeholders, words, variables).
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import unescape
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sluice.contracts.errors import InvalidSetting
from sluice.contracts.trust import PrivateSpan
from sluice.text.hidden import DIRECTION, JOINERS, NO_WIDTH, SELECTORS, TAGS
from sluice.text.readings import Piece, Reading, replaced
from sluice.trust.private.kinds import KINDS, find_kinds
from sluice.trust.settings import TrustSettings

RULE_FILES = ("gitleaks.toml", "own.toml")
_LEAD_CHARACTERS = 50
"""Characters before a match that gitleaks counts as part of it: the rest of the name around a keyword."""
_LEAD = re.compile(r"[\w.-]*\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Allowed:
    """Matches that are no secret: their `target` (`secret`, `match`, `line`) meets an expression or holds a word."""

    target: str
    regexes: tuple[re.Pattern[str], ...]
    stopwords: tuple[str, ...] = ()

    def holds(self, text: str, start: int, end: int, secret: str) -> bool:
        """Return whether the match `text[start:end]` with its `secret` is allowed."""
        part = secret
        if self.target == "match":
            lead = _LEAD.search(text, max(0, start - _LEAD_CHARACTERS), start)
            part = text[lead.start() if lead else start : end]
        elif self.target == "line":
            part = text[text.rfind("\n", 0, start) + 1 : end + (text[end:] + "\n").index("\n")]
        if any(regex.search(part) for regex in self.regexes):
            return True
        lowered = secret.lower()
        return any(word in lowered for word in self.stopwords)


@dataclass(frozen=True, slots=True)
class SecretRule:
    """One form of secret. The secret is `group` of a match; with None, its first group that matched, else all of it."""

    id: str
    pattern: re.Pattern[str]
    keywords: tuple[str, ...]
    entropy: float
    group: int | None
    needs_digit: bool
    allowed: tuple[Allowed, ...]

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each secret of this form."""
        for match in self.pattern.finditer(text):
            start, end = match.span(self._group(match))
            secret = text[start:end]
            if self.needs_digit and not any(character.isdigit() for character in secret):
                continue
            if self.entropy and bits_per_character(secret) <= self.entropy:
                continue
            if not any(one.holds(text, match.start(), match.end(), secret) for one in self.allowed):
                yield start, end

    def _group(self, match: re.Match[str]) -> int:
        if self.group is not None:
            return self.group
        return next((number for number, value in enumerate(match.groups(), start=1) if value), 0)


def bits_per_character(text: str) -> float:
    """Return Shannon's entropy of the characters of `text`, in bits."""
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)


@cache
def load_rules() -> tuple[SecretRule, ...]:
    """Return every rule, compiled; read once per process (some 0.1 s)."""
    tables = [tomllib.loads((Path(__file__).parent / "rules" / name).read_text("utf-8")) for name in RULE_FILES]
    exceptions = [one for table in tables for one in table.get("exceptions", ())]
    return tuple(rule for table in tables for rule in parse_rules(table, exceptions))


def parse_rules(table: Mapping[str, Any], exceptions: Sequence[Mapping[str, Any]] = ()) -> Iterator[SecretRule]:
    """Yield the rules of one file. `exceptions` are allow-lists for the rules of any file."""
    everywhere = Allowed("secret", _compiled(table["allowed"]), tuple(table["stopwords"]))
    for rule in table["rules"]:
        own = (
            Allowed(one["target"], _compiled(one["regexes"]), tuple(one.get("stopwords", ())))
            for one in (*rule.get("allowed", ()), *(one for one in exceptions if one["id"] == rule["id"]))
        )
        yield SecretRule(
            rule["id"],
            re.compile(rule["regex"], re.ASCII),
            tuple(rule["keywords"]),
            float(rule.get("entropy", 0)),
            rule.get("group"),
            rule.get("needs_digit", False),
            (everywhere, *own),
        )


def _compiled(expressions: list[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(expression, re.ASCII) for expression in expressions)


class PatternFinder:
    """Finds cards, accounts, addresses, numbers and secrets by patterns and their check digits. Safe for threads."""

    @property
    def version(self) -> str:
        """A hash of the rule files and of the code that applies them: another version may find other spans."""
        return _hash_of_sources()

    def find(self, text: str) -> tuple[PrivateSpan, ...]:
        """Return the spans in order, without overlaps."""
        spans = [*_find_all(text)]
        if read := _plain(text):
            spans += _moved(read, _find_all(read.text))
        if joined := _unwrapped(text):
            found = _moved(joined, (one for one in find_secrets(joined.text) if one.kind not in _GENERIC))
            spans += (one for one in found if "\n" in text[one.start : one.end])
        return keep_apart(spans)


def _find_all(text: str) -> Iterator[PrivateSpan]:
    yield from find_secrets(text)
    yield from (PrivateSpan(kind=kind, start=start, end=end) for kind, start, end in find_kinds(text))


def _moved(read: Reading, spans: Iterable[PrivateSpan]) -> list[PrivateSpan]:
    """Return spans of what was read as spans of the original text."""
    placed = ((one.kind, read.span(one.start, one.end)) for one in spans)
    return [PrivateSpan(kind=kind, start=start, end=end) for kind, (start, end) in placed]


_UNSEEN = re.compile(f"[{NO_WIDTH}{JOINERS}{DIRECTION}{SELECTORS}{TAGS}]+")
_WRITTEN_OTHERWISE = re.compile(
    _UNSEEN.pattern + r"|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,31});|(?:%[2-7][0-9a-fA-F])+"
    "|[\u00a0\u2000-\u200a\u202f\u3000\u2010-\u2015\u2024\u2070-\u208e\u2460-\u24ff\ufe30-\ufe6f\uff01-\uff5e"
    "\U0001d400-\U0001d7ff]"
)
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015", "-"))
_WRAPPED = re.compile(r"(?<=[A-Za-z0-9+/_=-]{6})\\?\r?\n[ \t>|#*]{0,20}(?=[A-Za-z0-9+/_=-]{4})")


def _plain(text: str) -> Reading | None:
    """Return `text` in plain characters; None where it has no others."""
    if text.isascii() and "&" not in text and "%" not in text:
        return None
    return _replaced(text, _WRITTEN_OTHERWISE, _plain_of)


def _unwrapped(text: str) -> Reading | None:
    """Return `text` with its lines joined where a break may part a token; None where there is no such break."""
    return _replaced(text, _WRAPPED, lambda _: "")


def _replaced(text: str, pattern: re.Pattern[str], instead_of: Callable[[str], str]) -> Reading | None:
    pieces = [Piece(*found.span(), instead_of(found[0]), "plain") for found in pattern.finditer(text)]
    return replaced(Reading(text), pieces) if pieces else None


def _plain_of(written: str) -> str:
    if written[0] == "%":
        return unquote(written)
    seen = _UNSEEN.sub("", unescape(written))
    read = unicodedata.normalize("NFKC", seen).translate(_DASHES)
    return read if read.isascii() else seen


_GENERIC = frozenset(("secret.generic-api-key", "secret.password"))
"""Rules that go by the words around a value; over a line's end these belong to something else."""


def find_secrets(text: str) -> Iterator[PrivateSpan]:
    """Yield every secret, in the order of the rules; a secret that two rules match comes twice."""
    lowered = text.lower()
    rules = load_rules()
    for number in _possible_rules(lowered):
        rule = rules[number]
        if any(keyword in lowered for keyword in rule.keywords):
            for start, end in rule.find(text):
                yield PrivateSpan(kind=f"secret.{rule.id}", start=start, end=end)


def _possible_rules(lowered: str) -> list[int]:
    """Return the rules of which a keyword's first three bytes stand in the text, by one table of all such groups."""
    import numpy

    groups, rules = _groups_of_keywords()
    data = numpy.frombuffer(lowered.encode("utf-8", "replace") + b"\0\0", numpy.uint8).astype(numpy.uint32)
    there = numpy.zeros(1 << 16, bool)
    there[_grouped(data[:-2], data[1:-1], data[2:])] = True
    return sorted({*rules[there[groups]].tolist(), *_rules_of_short_keywords()})


def _grouped(first: Any, second: Any, third: Any) -> Any:
    return (first * 961 + second * 31 + third) & 0xFFFF


@cache
def _groups_of_keywords() -> tuple[Any, Any]:
    import numpy

    pairs = [(keyword.encode()[:3], number) for number, rule in enumerate(load_rules()) for keyword in rule.keywords]
    long = [(group, number) for group, number in pairs if len(group) == 3]
    groups = numpy.array([_grouped(*group) for group, _ in long], numpy.uint32)
    return groups, numpy.array([number for _, number in long])


@cache
def _rules_of_short_keywords() -> tuple[int, ...]:
    return tuple(number for number, rule in enumerate(load_rules()) if min(map(len, rule.keywords)) < 3)


def keep_apart(spans: list[PrivateSpan]) -> tuple[PrivateSpan, ...]:
    """Return the spans in order; of those that overlap only the most specific."""
    kept: list[PrivateSpan] = []
    for span in sorted(spans, key=_rank):
        if span.end > span.start and all(span.end <= one.start or one.end <= span.start for one in kept):
            kept.append(span)
    return tuple(sorted(kept, key=lambda span: span.start))


def _rank(span: PrivateSpan) -> tuple[int, int]:
    order = list(KINDS)
    if span.is_secret:
        return (1 if span.kind in _GENERIC else 0), span.start - span.end
    return (2 + order.index(span.kind) if span.kind in order else 2 + len(order)), span.start - span.end


@cache
def _hash_of_sources() -> str:
    """Return a SHA-256 in 12 hexadecimal digits of the rules and patterns and of the modules that apply them."""
    here = Path(__file__).parent
    paths = (*(here / "rules" / name for name in RULE_FILES), *sorted((*here.glob("*.toml"), *here.glob("*.py"))))
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]


LEAST_SCORE = 1.0
"""Least score of a find, from 0 to 1: the score of a find whose check digit is right."""
_FOUND_BY_PATTERNS = ["CREDIT_CARD", "EMAIL_ADDRESS", "IBAN_CODE", "IP_ADDRESS", "PHONE_NUMBER", "US_SSN"]
_NOT_PRIVATE = ["CRYPTO", "DATE_TIME", "URL"]
_WITHOUT_CHECK_DIGIT = ["TR_LICENSE_PLATE", "UK_VEHICLE_REGISTRATION"]
"""Kinds left out: they occur in one abstract of twenty, and only their form is checked."""
_LEFT_OUT = frozenset([*_FOUND_BY_PATTERNS, *_NOT_PRIVATE, *_WITHOUT_CHECK_DIGIT])


class PresidioFinder(PatternFinder):
    """The project's own patterns and presidio's recognisers. Loaded at the first text (some 3 s); safe for threads.

    The latter find tax, health and bank numbers of some twenty countries, and need the extra `private`. A NoOp engine
    stands in for a language model, so only recognisers by pattern and check digit run, and names of persons are not
    searched for. Nothing goes to the network: `tldextract`, a dependency of presidio that would fetch its list of
    suffixes at first use, is limited to its bundled list.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @property
    def version(self) -> str:
        """Version of the patterns and of presidio."""
        return f"{super().version}-presidio-{presidio_version()}"

    def find(self, text: str) -> tuple[PrivateSpan, ...]:
        """Return the spans in order, without overlaps. Presidio's kinds are its own in lower case: `uk_nhs`.

        Raises InvalidSetting where presidio is not installed.
        """
        own = super().find(text)
        if not any(character.isdigit() for character in text):
            return own
        with self._lock:
            found = load_recognisers()(text)
        national = (PrivateSpan(kind=kind.lower(), start=start, end=end) for kind, start, end in found)
        return keep_apart([*own, *national])


_FINDERS = {"own": PatternFinder(), "presidio": PresidioFinder()}


def build_finder(settings: TrustSettings) -> PatternFinder:
    """Return the configured finder; the same one at each call."""
    return _FINDERS[settings.recognisers]


@cache
def presidio_version() -> str:
    """Return the package's version. Raises InvalidSetting where it is not installed."""
    try:
        return version("presidio-analyzer")
    except ModuleNotFoundError as error:
        raise InvalidSetting(
            "trust.recognisers", "presidio is not installed", "install the extra `private`, or set it to own"
        ) from error


@cache
def load_recognisers() -> Callable[[str], list[tuple[str, int, int]]]:
    """Return a function that finds (kind, start, end) in a text. First keeps `tldextract` from the network."""
    presidio_version()
    import tldextract

    tldextract.tldextract.TLD_EXTRACTOR = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
    from presidio_analyzer import AnalyzerEngine, PatternRecognizer, RecognizerRegistry, predefined_recognizers
    from presidio_analyzer.nlp_engine import NoOpNlpEngine

    kinds = [getattr(predefined_recognizers, name) for name in predefined_recognizers.__all__]
    by_check_digit: list[Any] = [
        one
        for one in kinds
        if isinstance(one, type)
        and issubclass(one, PatternRecognizer)
        and getattr(one, "validate_result", None) is not PatternRecognizer.validate_result
    ]
    registry = RecognizerRegistry([one(supported_language="en") for one in by_check_digit], supported_languages=["en"])
    no_model = NoOpNlpEngine(models=[{"lang_code": "en", "model_name": "none"}])
    engine: Any = AnalyzerEngine(registry=registry, nlp_engine=no_model, supported_languages=["en"])
    wanted = sorted(kind for kind in engine.get_supported_entities("en") if kind not in _LEFT_OUT)

    def find(text: str) -> list[tuple[str, int, int]]:
        found = engine.analyze(text, language="en", entities=wanted, score_threshold=LEAST_SCORE)
        return [(one.entity_type, one.start, one.end) for one in found]

    return find
