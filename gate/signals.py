"""The gate's features: each a measurement scaled to [0, 1], where 1 is the strongest.

    empty_corpus         1 when the corpus holds no chunk
    dissimilarity        distance of the best hit's cosine from one that means "covered"
    missing_terms        share of the question's idf mass that the best hit does not have
    flat_ranking         how little the best hit stands out from the last of the top hits
    even_similarity      how little the cosines of the top hits vary
    thin_sources         how far the relevant hits are from coming from enough documents
    staleness            time sensitivity of the question x share of its worth the newest relevant hit has lost
    newer_year           1 when the question names a year later than the newest relevant hit
    self_contained       certainty that the question needs no source (talk)
    session_sufficiency  how well the session's messages already hold the answer

and, if the profile weighs them (older profiles do not):

    sentence_dissimilarity  distance of the best cosine, of a hit or of one of its sentences, from one that means
                            "covered"
    sentence_missing_terms  share of the question's idf mass that no sentence of the top hits has, with the one
                            before it and its headings
    unanswered              how improbable it is that the corpus answers, as the coverage score with that probability

and for one domain (`gate.domains`), measured and weighed if its profile requests it:

    mention_velocity     how much more is published about the question's brand or company than before
    dependency_drift     how far a package that the question names is behind its newest indexed release
    failing_tests        number of failing tests of a report that the question names
    todo_density         share of the code found that is marked as unfinished

All but `self_contained` and `session_sufficiency` favour going outside. Every feature is monotone in the hits: a hit or
a sentence that is nearer, newer, of one more document, or has one more term never raises one of those with a weight.
`flat_ranking` and `even_similarity` are the exception, because a better second hit makes a ranking flatter: the
profiles that come with the package measure them and give them no weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from sluice.contracts.errors import InvalidInput
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested, ProbeHit
from sluice.contracts.plan import Plan
from sluice.contracts.profiles import DomainMeasures
from sluice.gate.domains import rate_drift, rate_failing_tests, rate_todo_density, rate_velocity
from sluice.gate.heads import read_heads
from sluice.gate.intent import QuestionKind, classify
from sluice.gate.probe import compute_coverage, content_terms, enough_mass, is_informative
from sluice.gate.profile import Profile, Scales

DECIMALS = 6
TALK_FROM = 0.84
"""Probability from which a question is talk in profiles that state none."""
SECONDS_PER_DAY = 86_400.0
ABOUT_VERSIONS = frozenset({"dependency_version", "latest_release"})
"""Intents of questions about a release or an upgrade."""
COVERAGE_FEATURES = (
    "empty_corpus",
    "dissimilarity",
    "missing_terms",
    "sentence_dissimilarity",
    "sentence_missing_terms",
    "unanswered",
    "flat_ranking",
    "even_similarity",
    "thin_sources",
)
"""Features that measure whether the corpus answers the question, whatever its age."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature: `value` in [0, 1], and the measurement behind it in words."""

    name: str
    value: float
    raw: str


@dataclass(frozen=True, slots=True)
class Talk:
    """A question that needs no source (`gate.heads`), and the measurement behind it in words."""

    about_assistant: bool
    raw: str


@dataclass(frozen=True, slots=True)
class Signals:
    """All inputs of a decision from its request and probe."""

    kind: QuestionKind
    features: tuple[Feature, ...]
    talk: Talk | None = None
    """What makes the question talk; None if it is none, or the profile does not recognise talk."""

    def __getitem__(self, name: str) -> float:
        """Return the value of the feature called `name`."""
        return next(feature.value for feature in self.features if feature.name == name)

    def __contains__(self, name: str) -> bool:
        """Return whether the profile has the feature measured."""
        return any(feature.name == name for feature in self.features)


def read_signals(
    request: GateRequested, probed: CoverageProbed, profile: Profile, recorded: GateDecided | None = None
) -> Signals:
    """Return the features of `request`, measured by `probed`, on the scales of `profile`, always in the same order.
    Ages are taken at `probed.probed_at`; nothing reads a clock. `recorded` is a decision that is computed again. Raises
    `InvalidInput`, naming the field, if a measurement is not a finite number or does not fit the request."""
    _refuse_non_finite(probed)
    changes = probed.heads.get("changes") if profile.heads is not None else None
    kind = classify(request.query, probed.intent_similarity, probed.probed_at.year, profile, changes)
    talk = _find_talk(request, probed, profile, recorded)
    similarities = sorted(
        (hit.dense_similarity for hit in probed.hits if hit.dense_similarity is not None), reverse=True
    )
    relevant = [hit for hit in probed.hits if _is_relevant(hit, profile.scales)]
    return Signals(
        kind,
        (
            _empty_corpus(probed),
            _dissimilarity(similarities, profile.scales),
            _missing_terms(probed),
            _flat_ranking(similarities, profile.scales),
            _even_similarity(similarities, profile.scales),
            _thin_sources(relevant, profile.scales),
            _staleness(relevant, probed.probed_at, kind, profile),
            _newer_year(relevant, probed.probed_at.year, kind),
            _self_contained(kind, talk, profile),
            _session_sufficiency(request, probed, profile.scales),
            *_sentence_features(probed, similarities, profile),
            *_domain_features(probed, kind, profile),
        ),
        talk,
    )


def plan_without_search(signals: Signals, profile: Profile) -> Plan | None:
    """Return the plan of a question that needs no search whatever the corpus holds; None for every other question. Talk
    needs no source; a question about the assistant may have one, if the corpus is the assistant's own."""
    if signals.talk is not None:
        return Plan.RETRIEVE if signals.talk.about_assistant else Plan.SKIP
    holds_it = signals["session_sufficiency"] >= profile.thresholds.skip and not signals.kind.time_sensitive
    return Plan.SKIP if holds_it else None


def effective_date(hit: ProbeHit) -> datetime:
    """Return the moment whose state of the world the hit shows: its fetch, or a known publication before that."""
    return min(hit.published_at, hit.fetched_at) if hit.published_at is not None else hit.fetched_at


def ramp(value: float, none: float, full: float) -> float:
    """Return 0 up to `none`, 1 from `full`, and the linear value in between; rounded to six places."""
    if full <= none:
        return 1.0 if value >= full else 0.0
    return round(min(1.0, max(0.0, (value - none) / (full - none))), DECIMALS)


def _empty_corpus(probed: CoverageProbed) -> Feature:
    empty = probed.chunk_count == 0 and not probed.hits
    return Feature("empty_corpus", float(empty), f"{probed.chunk_count} chunks in the corpus")


def _dissimilarity(similarities: list[float], scales: Scales) -> Feature:
    if not similarities:
        return Feature("dissimilarity", 1.0, "no hit")
    top = similarities[0]
    near = ramp(top, scales.similarity_none, scales.similarity_covered)
    return Feature("dissimilarity", _rest(near), f"best cosine {top:.4f}")


def _missing_terms(probed: CoverageProbed) -> Feature:
    if not probed.terms:
        return Feature("missing_terms", 0.0, "no content words in the question")
    missing = [term.term for term in probed.terms if not term.covered]
    raw = f"not covered: {', '.join(missing[:8])}" if missing else "every content word is covered"
    return Feature("missing_terms", _rest(compute_coverage(probed.terms)), raw)


def _sentence_features(probed: CoverageProbed, similarities: list[float], profile: Profile) -> Iterator[Feature]:
    if profile.weights.sentence_dissimilarity is not None:
        yield _sentence_dissimilarity(probed, similarities, profile.scales)
    if profile.weights.sentence_missing_terms is not None:
        yield _sentence_missing_terms(probed)
    if profile.weights.unanswered is not None:
        yield _unanswered(probed, similarities, profile)


def _domain_features(probed: CoverageProbed, kind: QuestionKind, profile: Profile) -> Iterator[Feature]:
    measures, weights = probed.domain or DomainMeasures(), profile.weights
    if weights.mention_velocity is not None:
        yield Feature("mention_velocity", *rate_velocity(measures.velocity))
    if weights.dependency_drift is not None:
        yield Feature(
            "dependency_drift", *rate_drift(measures.dependencies, asks_for_version=kind.intent in ABOUT_VERSIONS)
        )
    if weights.failing_tests is not None:
        yield Feature("failing_tests", *rate_failing_tests(measures.failing_tests))
    if weights.todo_density is not None:
        yield Feature("todo_density", *rate_todo_density(measures.todo_marks, measures.code_lines))


def _sentence_dissimilarity(probed: CoverageProbed, similarities: list[float], scales: Scales) -> Feature:
    """Rate the nearest of the passages and their sentences: in code and tables no single sentence has the meaning."""
    name, of_sentences = "sentence_dissimilarity", [one.similarity for one in probed.sentences if one.similarity]
    if not similarities and not of_sentences:
        return Feature(name, 1.0, "no hit")
    passage, sentence = max(similarities, default=-1.0), max(of_sentences, default=-1.0)
    near = ramp(max(passage, sentence), scales.similarity_none, scales.similarity_covered)
    told = f"best sentence: cosine {sentence:.4f}" if of_sentences else "no sentence compared"
    return Feature(name, _rest(near), f"{told}; best passage: {passage:.4f}")


def _sentence_missing_terms(probed: CoverageProbed) -> Feature:
    """Rate the best sentence, or the best passage of a probe without sentences."""
    name = "sentence_missing_terms"
    if not probed.terms:
        return Feature(name, 0.0, "no content words in the question")
    if not probed.sentences:
        enough = math.inf if probed.answerable is None else enough_mass(probed.chunk_count)
        return Feature(name, _rest(compute_coverage(probed.terms, enough)), "no sentences; of the best passage")
    best = max(one.term_coverage for one in probed.sentences)
    return Feature(name, _rest(best), f"{best:.2f} of the question's terms in one sentence and the one before")


LEAST_PROBABILITY = 1e-4
"""As confidences are rounded."""


def _unanswered(probed: CoverageProbed, similarities: list[float], profile: Profile) -> Feature:
    """Rate the probability that the corpus answers; in a probe of an earlier release, the best sentence."""
    name, calibration = "unanswered", profile.calibration
    if probed.answerable is None or calibration is None:
        farness = _sentence_dissimilarity(probed, similarities, profile.scales)
        missing = _sentence_missing_terms(probed)
        return Feature(name, round((farness.value + missing.value) / 2, DECIMALS), f"{farness.raw}; {missing.raw}")
    probable = min(max(probed.answerable, LEAST_PROBABILITY), 1 - LEAST_PROBABILITY)
    score = (calibration.bias - math.log(probable / (1 - probable))) / calibration.steepness
    raw = f"the corpus answers with a probability of {probed.answerable:.2f}"
    return Feature(name, ramp(score, 0.0, 1.0), raw)


def _flat_ranking(similarities: list[float], scales: Scales) -> Feature:
    gap = similarities[0] - similarities[-1] if similarities else 0.0
    raw = f"best cosine {gap:.4f} above the last of {len(similarities)}"
    return Feature("flat_ranking", _rest(ramp(gap, 0.0, scales.gap_clear)), raw)


def _even_similarity(similarities: list[float], scales: Scales) -> Feature:
    count = len(similarities)
    mean = math.fsum(similarities) / count if count else 0.0
    variance = math.fsum((value - mean) ** 2 for value in similarities) / count if count else 0.0
    spread = ramp(math.sqrt(variance), 0.0, scales.deviation_clear)
    return Feature("even_similarity", _rest(spread), f"variance of the cosines {variance:.6f}")


def _thin_sources(relevant: list[ProbeHit], scales: Scales) -> Feature:
    documents = len({hit.document_id for hit in relevant})
    enough = ramp(documents, 0.0, scales.documents_enough)
    return Feature("thin_sources", _rest(enough), f"{documents} documents with a relevant hit")


def _staleness(relevant: list[ProbeHit], now: datetime, kind: QuestionKind, profile: Profile) -> Feature:
    sensitivity = ramp(kind.time_sensitivity, profile.time.insensitive_below, profile.time.sensitive_above)
    about = f"time sensitivity {kind.time_sensitivity:.3f}, half-life {kind.half_life_days:g} days"
    if not relevant:
        return Feature("staleness", sensitivity, f"no relevant hit, {about}")
    age_days = max(0.0, (now - max(map(effective_date, relevant))).total_seconds() / SECONDS_PER_DAY)
    lost = 1 - 0.5 ** (age_days / kind.half_life_days)
    raw = f"newest relevant hit {age_days:.2f} days old, {about}"
    return Feature("staleness", round(sensitivity * lost, DECIMALS), raw)


def _newer_year(relevant: list[ProbeHit], present_year: int, kind: QuestionKind) -> Feature:
    """Compare the question's latest year with the newest relevant hit's; a future year counts as the present one."""
    if kind.newest_year is None:
        return Feature("newer_year", 0.0, "the question names no year")
    wanted = min(kind.newest_year, present_year)
    newest = max((effective_date(hit).year for hit in relevant), default=None)
    raw = f"the question names {kind.newest_year}, the newest relevant hit is of {newest or 'no year'}"
    return Feature("newer_year", float(newest is None or wanted > newest), raw)


def _find_talk(
    request: GateRequested, probed: CoverageProbed, profile: Profile, recorded: GateDecided | None
) -> Talk | None:
    """Return what makes the request talk. None with pages to read: "summarise this" then refers to them. Profiles
    without `heads` told it by lists of words; of their decisions the record says what these found."""
    if request.seeds or (profile.talk is None and profile.heads is None):
        return None
    if profile.heads is None and recorded is not None:
        found = (one.raw for one in recorded.contributions if one.feature == "self_contained")
        raw = next((raw for raw in found if raw.startswith("talk")), None)
        return None if raw is None else Talk("assistant" in raw, raw)
    heads = probed.heads or read_heads(request.query, None)
    if heads["talk"] < (profile.heads.talk_from if profile.heads else TALK_FROM):
        return None
    about_assistant = heads["assistant"] >= 0.5
    about = " about the assistant" if about_assistant else ""
    by = " by its words alone" if probed.embedder_down else ""
    return Talk(about_assistant, f"talk{about}, with a probability of {heads['talk']:.2f}{by}")


def _self_contained(kind: QuestionKind, talk: Talk | None, profile: Profile) -> Feature:
    if talk is not None:
        return Feature("self_contained", 1.0, talk.raw)
    sure = ramp(kind.closeness, profile.scales.small_talk_none, profile.scales.small_talk_sure)
    value = round(sure * profile.intents[kind.intent].self_contained, DECIMALS)
    return Feature("self_contained", value, f"intent {kind.intent}, cosine {kind.closeness:.4f}")


def _session_sufficiency(request: GateRequested, probed: CoverageProbed, scales: Scales) -> Feature:
    """Return the similarity of the nearest message that can hold an answer, times the share of the question's terms.
    Texts of the agent's memory count as messages do."""
    said = _informing_similarities(request, probed)
    nearest = max((*said, *probed.memory_similarity), default=None)
    if nearest is None:
        return Feature("session_sufficiency", 0.0, "no message that could hold an answer")
    near = ramp(nearest, scales.session_similarity_none, scales.session_similarity_covered)
    share = probed.session_term_coverage
    what = "message" if nearest in said else "text of memory"
    raw = f"nearest {what}: cosine {nearest:.4f}; {share:.2f} of the question's terms in the session"
    return Feature("session_sufficiency", round(near * share, DECIMALS), raw)


def _informing_similarities(request: GateRequested, probed: CoverageProbed) -> list[float]:
    measured, messages = probed.session_similarity, request.session
    if measured and len(messages) != len(measured):
        problem = f"{len(measured)} similarities for {len(messages)} messages"
        raise InvalidInput("session_similarity", problem, "one a message, in order")
    terms = content_terms(request.query)
    pairs = zip(messages, measured, strict=False)  # without vectors there are messages and no similarities
    return [similarity for message, similarity in pairs if is_informative(message, terms)]


def _is_relevant(hit: ProbeHit, scales: Scales) -> bool:
    return hit.dense_similarity is not None and hit.dense_similarity >= scales.relevant_similarity


def _rest(share: float) -> float:
    return round(1.0 - share, DECIMALS)


def _refuse_non_finite(probed: CoverageProbed) -> None:
    measured: tuple[tuple[str, Iterable[float | None]], ...] = (
        ("hits.dense_similarity", (hit.dense_similarity for hit in probed.hits)),
        ("hits.lexical_score", (hit.lexical_score for hit in probed.hits)),
        ("terms.idf", (term.idf for term in probed.terms)),
        ("intent_similarity", probed.intent_similarity.values()),
        ("heads", probed.heads.values()),
        ("session_similarity", probed.session_similarity),
        ("memory_similarity", probed.memory_similarity),
        ("sentences.similarity", (sentence.similarity for sentence in probed.sentences)),
    )
    for field, values in measured:
        if not all(value is None or math.isfinite(value) for value in values):
            raise InvalidInput(field, "not a finite number")
