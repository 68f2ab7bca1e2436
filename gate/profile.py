"""A profile: every number the gate decides by, as one frozen, versioned, hashed value.

Profiles are TOML files named `<name>.v<version>.toml`. A file may `extend` another, or several, and then states only
the differences: its bases are merged over one another, each once, in the order in which they are named. The merged
result counts: the `config_hash` of a decision is the hash of its canonical JSON, and `from_bytes` of those bytes
restores the same profile, so a decision can be recomputed long after the file was changed.
`docs/decisions/0002-gate-weights.md` explains the origin of each number.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, ValidationError, model_validator

from sluice.contracts.base import Value, is_empty, is_none
from sluice.contracts.errors import InvalidInput, InvalidSetting, first_problem
from sluice.contracts.gate import ProfileName
from sluice.contracts.ingest import Vertical
from sluice.contracts.retrieval import Strategy
from sluice.gate.domains import InsightSettings

PROFILES_DIR = Path(__file__).parent / "profiles"
ENTITY_NAMES = ("cve", "ghsa", "rfc", "error", "brand", "campaign", "region")
"""The entities of a question that search templates may name (`gate.seeds`)."""

Need = Annotated[FiniteFloat, Field(ge=0)]
"""A weight that can only raise the score: more of the feature, more need to go outside."""
Relief = Annotated[FiniteFloat, Field(le=0)]
"""A weight that can only lower the score."""
LaterNeed = Annotated[FiniteFloat | None, Field(ge=0, exclude_if=is_none)]
"""As `Need`, for a feature of a later version: None in a profile without it, so that it is not measured."""
Share = Annotated[FiniteFloat, Field(ge=0, le=1)]
Days = Annotated[FiniteFloat, Field(gt=0)]


class Weights(Value):
    """One weight per feature. Fixed signs make the decision monotone."""

    empty_corpus: Need
    dissimilarity: Need
    missing_terms: Need
    flat_ranking: Need
    even_similarity: Need
    thin_sources: Need
    staleness: Need
    newer_year: Need
    self_contained: Relief
    session_sufficiency: Relief
    sentence_dissimilarity: LaterNeed = None
    sentence_missing_terms: LaterNeed = None
    unanswered: LaterNeed = None
    mention_velocity: LaterNeed = None
    dependency_drift: LaterNeed = None
    failing_tests: LaterNeed = None
    todo_density: LaterNeed = None


class Thresholds(Value):
    """Scores from which a run searches, and also crawls; and the sufficiency from which it skips."""

    search: FiniteFloat
    full_loop: FiniteFloat
    skip: Share

    @model_validator(mode="after")
    def _ordered(self) -> Thresholds:
        if self.full_loop < self.search:
            raise ValueError("full_loop must not be below search")
        return self


class Scales(Value):
    """Raw measurements at which a feature is 0 or 1. Similarities are cosines."""

    similarity_none: FiniteFloat
    similarity_covered: FiniteFloat
    relevant_similarity: FiniteFloat
    gap_clear: Need
    deviation_clear: Need
    documents_enough: Annotated[int, Field(ge=1)]
    session_similarity_none: FiniteFloat
    session_similarity_covered: FiniteFloat
    small_talk_none: FiniteFloat
    small_talk_sure: FiniteFloat


class TalkModel(Value):
    """Recognition of talk by lists of words that are no more; kept as decisions were recorded with their name."""

    lexicon: Annotated[str, Field(pattern=r"^[a-z]+\.v\d+$")]


class Heads(Value):
    """Use of the probe's `heads` (`gate.heads`) for talk and for change."""

    talk_from: Share
    """Probability from which a question is talk."""


class Calibration(Value):
    """Probability of an answer in the corpus: 1 / (1 + exp(-(bias - steepness x coverage score))), and, the other way
    round, the coverage score of a probability that was measured (`gate.signals`)."""

    bias: FiniteFloat
    steepness: Need


class TimeWords(Value):
    """Phrases with the same meaning for time: their strength (log-odds), and how soon an answer is outdated."""

    phrases: Annotated[tuple[str, ...], Field(min_length=1)]
    strength: FiniteFloat
    half_life_days: Days | None = None


class TimeModel(Value):
    """Log-odds that an answer changes over time: bias + part of the intents + strengths of the words found.

    The part of the intents is `margin_weight` x (cosine to the nearest time-bound intent - that to the nearest other) +
    the sum of `intent_weights` x the cosine to each. Weights that sum to 0 cancel the common part of all the cosines of
    a question.
    """

    bias: FiniteFloat
    margin_weight: Need
    intent_weights: Annotated[dict[str, FiniteFloat], Field(default_factory=dict, exclude_if=is_empty)]
    threshold: Annotated[FiniteFloat | None, Field(gt=0, lt=1, exclude_if=is_none)] = None
    """Probability from which a question counts as time-sensitive; None: a half."""
    past_year: FiniteFloat
    numbered_part: FiniteFloat
    insensitive_below: Share
    sensitive_above: Share
    words: dict[str, TimeWords]

    @property
    def counts_from(self) -> float:
        """Return the probability from which a question counts as time-sensitive."""
        return 0.5 if self.threshold is None else self.threshold


class Intent(Value):
    """A kind of question: typical texts, and the half-life of an answer."""

    prototypes: Annotated[tuple[str, ...], Field(min_length=1)]
    half_life_days: Days
    time_bound: bool = False
    self_contained: Share = 0.0
    """How far such a question needs no source: 1 for small talk."""


Domain = Annotated[str, Field(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)+$")]
PLACEHOLDER = re.compile(r"\{(\w+)\}")
"""A place in a template that is filled in."""


class VerticalQuery(Value):
    """A query for one part of the web, sent if each placeholder has an entity and the conditions hold. Placeholders are
    `{query}`, `{year}` and `ENTITY_NAMES`."""

    template: Annotated[str, Field(min_length=1)]
    vertical: Vertical = "web"
    sites: Annotated[tuple[Domain, ...], Field(max_length=10)] = ()
    """If not empty, search only these domains and those below them. Each must be a registered domain or below one."""
    words: tuple[str, ...] = ()
    """If not empty, sent only if the question has one of these words or phrases."""
    only_fresh: bool = False
    """Sent only if the question is time-sensitive."""
    freshness: Literal["day", "week", "month", "year"] | None = None
    """For a time-sensitive question: exclude results that are known to be older."""

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> VerticalQuery:
        unknown = sorted(set(PLACEHOLDER.findall(self.template)) - {"query", "year", *ENTITY_NAMES})
        if unknown:
            raise ValueError(f"no entity {{{unknown[0]}}}; there are query, year, {', '.join(ENTITY_NAMES)}")
        return self


class SearchQueries(Value):
    """Search queries: the question itself, then these, where `{query}` and `{year}` are filled in."""

    verticals: Annotated[tuple[VerticalQuery, ...], Field(exclude_if=is_empty)] = ()
    """Sent before the question itself, which always keeps its place among `max_queries`."""
    sites: Annotated[tuple[Domain, ...], Field(max_length=10, exclude_if=is_empty)] = ()
    """If not empty, queries without sites of their own search these domains only."""
    regions: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Names of countries and regions that fill `{region}`."""
    templates: tuple[str, ...] = ()
    fresh_templates: tuple[str, ...] = ()
    """Used before `templates` if the question is time-sensitive."""
    max_queries: Annotated[int, Field(ge=1, le=3)] = 3


class RetrievalSettings(Value):
    """Retrieval of an answer's passages; it changes no decision."""

    strategy: Literal[Strategy.HYBRID, Strategy.HYBRID_GRAPH] = Strategy.HYBRID


class Profile(Value):
    """All inputs of a decision besides its request, its probe, policy and budget."""

    name: ProfileName
    version: Annotated[int, Field(ge=1)]
    weights: Weights
    thresholds: Thresholds
    scales: Scales
    time: TimeModel
    intents: Annotated[dict[str, Intent], Field(min_length=1)]
    search: SearchQueries = SearchQueries()
    calibration: Annotated[Calibration | None, Field(exclude_if=is_none)] = None
    talk: Annotated[TalkModel | None, Field(exclude_if=is_none)] = None
    heads: Annotated[Heads | None, Field(exclude_if=is_none)] = None
    insights: Annotated[InsightSettings | None, Field(exclude_if=is_none)] = None
    retrieval: Annotated[RetrievalSettings | None, Field(exclude_if=is_none)] = None

    @model_validator(mode="after")
    def _weighted_intents_are_there(self) -> Profile:
        unknown = sorted(self.time.intent_weights.keys() - self.intents.keys())
        if unknown:
            raise ValueError(f"time.intent_weights: no intent {unknown[0]!r}; one of {', '.join(sorted(self.intents))}")
        return self

    @classmethod
    def from_bytes(cls, raw: bytes) -> Profile:
        """Return the profile with these `canonical_bytes`. Raises `InvalidSetting`, naming the field, if they are not
        one."""
        try:
            return cls.model_validate_json(raw)
        except ValidationError as error:
            raise InvalidSetting(*first_problem(error, ["profile"])) from error

    def __copy__(self) -> Profile:
        """Return a copy without the values computed from this profile, since `model_copy` changes the copy's fields."""
        copied = super().__copy__()
        for computed in ("_canonical_bytes", "config_hash"):
            copied.__dict__.pop(computed, None)
        return copied

    def canonical_bytes(self) -> bytes:
        """Return UTF-8 JSON with sorted keys and no spaces: equal profiles give equal bytes."""
        return self._canonical_bytes

    @cached_property
    def _canonical_bytes(self) -> bytes:
        fields = self.model_dump(mode="json")
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @cached_property
    def config_hash(self) -> str:
        """Return the hex SHA-256 of `canonical_bytes`."""
        return hashlib.sha256(self.canonical_bytes()).hexdigest()

    def prototypes(self) -> dict[str, tuple[str, ...]]:
        """Return the texts to embed for `CoverageProbed.intent_similarity`, by intent."""
        return {name: intent.prototypes for name, intent in self.intents.items()}


def load_profiles(extra_dir: Path | None = None) -> dict[str, Profile]:
    """Return every profile by its name, in its highest version; those in `extra_dir` replace the package's. Raises
    `InvalidSetting`, naming the file and the field, if a file cannot be read, is not TOML, extends a missing profile,
    or has a field that does not fit."""
    own, extra = _load_all(extra_dir)
    return _highest_versions(own) | _highest_versions(extra)


def load_former_profiles(extra_dir: Path | None = None) -> dict[str, Profile]:
    """Return the highest version below that of `load_profiles`, for each profile that has one, from either folder.
    Raises `InvalidSetting` as `load_profiles` does."""
    own, extra = _load_all(extra_dir)
    deciding = _highest_versions(own) | _highest_versions(extra)
    return _highest_versions([one for one in (*own, *extra) if one.version < deciding[one.name].version])


def _load_all(extra_dir: Path | None) -> tuple[list[Profile], list[Profile]]:
    """Return every version of every profile: the package's, and those of `extra_dir`."""
    files = {path.stem: path for path in sorted(PROFILES_DIR.glob("*.toml"))}
    own = [load_profile(path, files) for path in files.values()]
    if extra_dir is None:
        return own, []
    if not extra_dir.is_dir():
        raise InvalidSetting("gate.profiles_dir", f"no folder {extra_dir}", "name a folder of profile files")
    extra_files = {path.stem: path for path in sorted(extra_dir.glob("*.toml"))}
    return own, [load_profile(path, files | extra_files) for path in extra_files.values()]


def choose_profile(profiles: Mapping[str, Profile], name: str) -> Profile:
    """Return the profile of that name. Raises `InvalidInput` if there is none."""
    if name not in profiles:
        raise InvalidInput("profile", f"no profile {name!r}", f"one of {', '.join(sorted(profiles))}")
    return profiles[name]


def load_profile(path: Path, files: Mapping[str, Path]) -> Profile:
    """Return the profile in `path`, merged over the ones it extends; `files` are those it may extend, by stem."""
    fields: dict[str, Any] = {}
    for own in _extended(path, files, ()).values():
        fields = _overlaid(fields, own)
    try:
        profile = Profile.model_validate(fields)
    except ValidationError as error:
        field, problem = first_problem(error)
        raise InvalidSetting(f"{path.name}: {field}", problem) from error
    expected = f"{profile.name}.v{profile.version}"
    if path.stem != expected:
        raise InvalidSetting(f"{path.name}: name", f"holds {expected}", f"call the file {expected}.toml")
    return profile


def _extended(path: Path, files: Mapping[str, Path], seen: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return the fields of each file that `path` builds on, by stem, lowest first; those of `path` itself come last. A
    file that two of them extend comes once, where it is first named."""
    fields = dict(_read(path))
    bases = fields.pop("extends", [])
    layers: dict[str, dict[str, Any]] = {}
    for base in bases if isinstance(bases, list) else [bases]:
        if not isinstance(base, str) or base not in files or base in (*seen, path.stem):
            known = ", ".join(sorted(set(files) - {path.stem, *seen}))
            raise InvalidSetting(f"{path.name}: extends", f"cannot extend {base!r}", f"one of {known}")
        for stem, below in _extended(files[base], files, (*seen, path.stem)).items():
            layers.setdefault(stem, below)
    return layers | {path.stem: fields}


def _read(path: Path) -> Mapping[str, Any]:
    """Return what stands in a file. It is kept, as most profiles extend the same few, and processes are forked."""
    try:
        return _parsed(path, path.stat().st_mtime_ns)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(path.name, f"cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting(path.name, f"not TOML: {error}") from error


@lru_cache(maxsize=256)
def _parsed(path: Path, _changed_at: int) -> Mapping[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _overlaid(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        merged[key] = _overlaid(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _highest_versions(profiles: list[Profile]) -> dict[str, Profile]:
    return {profile.name: profile for profile in sorted(profiles, key=lambda profile: (profile.name, profile.version))}
