"""Scores the trust in a source: by the document's way of arrival, the evidence for it, and its age.

    score = (floor + (ceiling - floor) · share) · age

    floor, ceiling   the range for the document's origin (`RANGES`)
    share            in [0, 1]: the weighted mean of the factors that apply; without any, 0.5, or 0 for a submission
    age              falls linearly from 1.0 for a text of today to 0.7 for one a year old or older

The weights are those of the retrieval RFC: 0.4 for a listed domain, 0.3 for a valid signature, 0.3 for a known author.
If a factor cannot apply, the others are rescaled; docs/decisions/0016-source-trust.md has the reasons and a table.

A document's origin is what the instance knows of its source, not what the document claims. The id of a crawled page
follows from its address, that of a submission from its sender and the claimed address: no sender can take another's.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from sluice.contracts.base import construct_unvalidated
from sluice.contracts.document import Provenance, is_publication_date, is_under, parse_host, sha256_text
from sluice.contracts.learning.passages import PassageMark
from sluice.contracts.trust import Origin, TrustFactors, TrustPart, TrustScore
from sluice.trust.settings import TrustSettings

DOMAIN_WEIGHT, SIGNATURE_WEIGHT, AUTHOR_WEIGHT = 0.4, 0.3, 0.3
OLDEST_FRESHNESS = 0.7
YEAR_SECONDS = 365 * 86_400
NO_KEY = "local"
"""Id, among the believed senders, of those who needed no key: programs of this machine."""
_SUBMITTED: tuple[Origin, ...] = ("submitted", "operator")
UNDECIDED = 0.5
"""The share where there is no evidence for or against a source."""
_MOST_SOURCES = 20_000


class Range(NamedTuple):
    """The score of a text of today: without any evidence for the source, and with all of it."""

    floor: float
    ceiling: float


RANGES: Mapping[Origin, Range] = {
    "crawled": Range(0.64, 1.0),
    "searched": Range(0.5, 0.9),
    "submitted": Range(0.4, 1.0),
    "operator": Range(0.8, 1.0),
    "file": Range(0.9, 1.0),
}
"""Ranges by origin. The host vouches for a crawled page, the provider for a search result, and the sender for a
submission, whatever URL it names; the operator put a file on this machine. What the operator submits passes gate I at
any age, and is no clearer than the page that it may be a copy of."""


class _Judged(NamedTuple):
    """Score of a text of today by its source, and the factors."""

    score: float
    domain: float | None
    signature: bool | None
    author: float | None


@dataclass(frozen=True, slots=True)
class SourceTrust:
    """Scores by the operator's lists: trusted domains, authors known on a domain, believed senders."""

    domains: Collection[str] = ()
    """Trusted domains, including subdomains. Empty: no domain is judged."""
    authors: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Authors known on each domain, in any case."""
    submitters: Collection[str] = ()
    """Ids of API keys whose submissions count as the operator's own files."""
    keys: Collection[str] = ()
    """Ids of the keys whose signatures are trusted."""
    _judged: Callable[..., _Judged] = field(init=False, compare=False, repr=False)
    """`_judge` with a cache: its result is the same for every chunk and every query."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_judged", lru_cache(_MOST_SOURCES)(self._judge))

    def score(self, url: str | None, provenance: Provenance, chunk_id: str, now: datetime) -> TrustScore:
        """Return the trust in a document's source, for one of its chunks, at `now`."""
        origin = provenance.origin
        judged = self._judged(url, origin, provenance.author, provenance.submitted_by, provenance.signed_by)
        freshness = time_freshness(provenance, now)
        factors = {
            "domain_trust": judged.domain,
            "signature_valid": judged.signature,
            "time_freshness": freshness,
            "author_reputation": judged.author,
            "feedback": None,
        }
        fields = {
            "chunk_id": chunk_id,
            "score": judged.score * freshness,
            "factors": construct_unvalidated(TrustFactors, factors, _FACTORS),
            "origin": origin,
        }
        return construct_unvalidated(TrustScore, fields, _FIELDS)  # a search scores every candidate that it reads

    def _judge(
        self, url: str | None, origin: Origin, author: str | None, submitted_by: str | None, signed_by: str | None
    ) -> _Judged:
        """Return the score of today's text and the factors; neither depends on the date."""
        host = parse_host(url) if origin in _OF_THEIR_HOST else None
        domain = float(is_under(host, self.domains)) if host and self.domains else None
        reputation = self._author_reputation(host, author)
        signature = None if signed_by is None else signed_by in self.keys
        is_own = is_believed(origin, submitted_by, self.submitters)
        floor, ceiling = RANGES["file" if is_own else origin]
        share = _share(domain, signature, reputation)
        if share is None:
            share = 0.0 if origin == "submitted" and not is_own else UNDECIDED
        return _Judged(floor + (ceiling - floor) * share, domain, signature, reputation)

    def _author_reputation(self, host: str | None, author: str | None) -> float | None:
        """Return 1 for an author known on the host's domain, 0 for another; None without a name or known authors."""
        name = (author or "").strip().casefold()
        theirs = [names for domain, names in self.authors.items() if is_under(host, [domain])]
        known = {one.strip().casefold() for names in theirs for one in names}
        return float(name in known) if name and known else None


LEAST_TOLD = 0.005
"""A smaller rest of a score is not told."""


def parts_of(score: TrustScore) -> tuple[TrustPart, ...]:
    """Return the parts whose sum is the score, with those that did not apply.

    A submission of a believed sender was scored as a file: the range is that which comes nearest to the score.
    """
    factors, kept = score.factors, 1.0 if score.factors.feedback is None else score.factors.feedback
    own = score.score / (factors.time_freshness * kept) if kept else 0.0
    weighed = (
        ("domain", DOMAIN_WEIGHT, factors.domain_trust, _WHY_DOMAIN),
        ("signature", SIGNATURE_WEIGHT, factors.signature_valid, _WHY_SIGNATURE),
        ("author", AUTHOR_WEIGHT, factors.author_reputation, _WHY_AUTHOR),
    )
    total = sum(weight for _, weight, factor, _ in weighed if factor is not None)
    share = _share(factors.domain_trust, factors.signature_valid, factors.author_reputation)
    undecided = 0.0 if score.origin == "submitted" else UNDECIDED
    ranges = [(RANGES[score.origin], undecided if share is None else share)]
    if score.origin in _SUBMITTED:
        ranges.append((RANGES["file"], UNDECIDED if share is None else share))
    (floor, ceiling), share_of_today = min(ranges, key=lambda one: abs(one[0].floor + _width(one[0]) * one[1] - own))
    parts = [TrustPart(name="origin", adds=floor, why=score.origin)]
    for name, weight, factor, (absent, against, well) in weighed:
        adds = None if factor is None else (ceiling - floor) * weight / total * float(factor)
        parts.append(TrustPart(name=name, adds=adds, why=absent if factor is None else well if factor else against))
    middle = None if share is not None else (ceiling - floor) * share_of_today
    parts += [
        TrustPart(name="no evidence for or against it", adds=middle, why="where none of the three applies"),
        TrustPart(name="age", adds=own * (factors.time_freshness - 1.0), why="of the text when it was cited"),
        TrustPart(
            name="what callers say",
            adds=None if factors.feedback is None else own * factors.time_freshness * (kept - 1.0),
            why="nothing" if factors.feedback is None else "against the passage",
        ),
    ]
    rest = score.score - sum(part.adds or 0.0 for part in parts)
    if abs(rest) >= LEAST_TOLD:
        parts.append(TrustPart(name="other settings", adds=rest, why="it was scored by other ranges than today's"))
    return tuple(parts)


_WHY_DOMAIN = ("no domain is listed, or its address is only claimed", "it is not listed", "it is listed")
_WHY_SIGNATURE = ("the document bears none", "its key is not trusted any more", "its key is trusted")
_WHY_AUTHOR = ("no author of its domain is known", "not one of its domain's known authors", "known on its domain")


def _width(one: Range) -> float:
    return one.ceiling - one.floor


MOST_OF_AGENT, MOST_OF_ALL = 2, 4
"""The most marks on a passage that count of one agent's key, and of all keys together."""
DOUBT_OF_MARK = 0.1
"""Share of score and trust that a mark takes: one key alone never takes more than a fifth."""


def weigh_marks(marks: Iterable[PassageMark]) -> dict[str, float]:
    """Return the doubt of each marked passage, in [0, 0.4]: the share by which its score and its trust fall.

    An operator's mark counts twice. That of an agent's key that did not ask counts only where nobody else speaks of the
    passage in that run: nobody speaks for another's answers.
    """
    given = list(marks)
    spoken = {(one.run_id, one.chunk_id) for one in given if one.standing != "other"}
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in given:
        if one.standing == "operator":
            counts[one.chunk_id][one.owner] = MOST_OF_ALL if counts[one.chunk_id][one.owner] else 2
        elif one.standing == "asker" or (one.run_id, one.chunk_id) not in spoken:
            counts[one.chunk_id][one.owner] = min(MOST_OF_AGENT, counts[one.chunk_id][one.owner] + 1)
    return {name: DOUBT_OF_MARK * min(MOST_OF_ALL, count.total()) for name, count in counts.items() if count}


def is_believed(origin: Origin, submitted_by: str | None, submitters: Collection[str]) -> bool:
    """Return whether a submission comes from a sender whose submissions count as the operator's own files."""
    return origin in _SUBMITTED and (submitted_by or NO_KEY) in submitters


def source_trust_of(settings: TrustSettings) -> SourceTrust:
    """Return the scorer for the operator's lists."""
    return SourceTrust(settings.domains, settings.authors, frozenset(settings.submitters), frozenset(settings.keys))


_FACTORS, _FIELDS = set(TrustFactors.model_fields), set(TrustScore.model_fields)
_OF_THEIR_HOST = frozenset({"crawled", "searched"})
"""Origins whose URL is known to be the source. A submission's URL is a claim and counts neither way."""


def time_freshness(provenance: Provenance, now: datetime) -> float:
    """Return the freshness: from 1.0 to 0.7 over a year, by the date of publication, else of the fetch."""
    years = max(0.0, (now - written_at(provenance)).total_seconds() / YEAR_SECONDS)
    return max(OLDEST_FRESHNESS, 1.0 - (1.0 - OLDEST_FRESHNESS) * years)


def written_at(provenance: Provenance) -> datetime:
    """Return the time of publication, else of the fetch. A publication date after the fetch is ignored."""
    published = provenance.published_at
    return published if published and is_publication_date(published, provenance.fetched_at) else provenance.fetched_at


def _share(domain: float | None, signature: bool | None, author: float | None) -> float | None:
    """Return the weighted mean of the factors that apply; None where none does."""
    weighed = ((DOMAIN_WEIGHT, domain), (SIGNATURE_WEIGHT, signature), (AUTHOR_WEIGHT, author))
    applying = [(weight, float(factor)) for weight, factor in weighed if factor is not None]
    total = sum(weight for weight, _ in applying)
    return sum(weight * factor for weight, factor in applying) / total if applying else None


_DERIVED = re.compile(r"(doc|sub)_[0-9a-f]{32}")


class Refusal(NamedTuple):
    """Reason why a document may not replace a recorded one, and a remedy."""

    reason: str
    detail: str
    lifted_by: str


def submission_id_for(submitter: str | None, source: str) -> str:
    """Return the id of a submission by `submitter` (an API key's id; None without a key) under a URL or path."""
    return "sub_" + sha256_text(f"{submitter or NO_KEY}\0{source}")[:32]


def is_derived_id(document_id: str) -> bool:
    """Return whether an id has the form of ids derived from an address, which callers may not choose."""
    return _DERIVED.fullmatch(document_id) is not None


def refusal_to_replace(recorded: Provenance, new: Provenance) -> Refusal | None:
    """Return why the new document may not replace the recorded one of the same id; None where it may.

    A submission replaces its own sender's submissions, those of an unknown sender, and nothing else: not an operator's,
    who may have needed no key. Documents that this instance fetched or read itself are never refused.
    """
    if new.source != "submission":
        return None
    if recorded.source != "submission":
        what = f"a {recorded.origin} document" if recorded.origin != "file" else "a file"
        return Refusal("other_origin", f"{what} has this id, and a submission never replaces it", _REMEDY)
    is_known = recorded.submitted_by and new.submitted_by
    if recorded.submitted_by != new.submitted_by and (is_known or (recorded.by_operator and not new.by_operator)):
        return Refusal("other_sender", "another sender handed in the document of this id", _REMEDY)
    return None


_REMEDY = "another id, or none; or delete the document first"
