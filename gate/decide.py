"""The decision: a score of weighted features, a plan by thresholds, lowered by what policy and budget deny.

    score = sum of weight x feature           a higher score means more need to go outside
    score >= full_loop                        retrieve, search and crawl
    search <= score < full_loop               retrieve and search
    score < search                            retrieve
    session sufficiency >= skip               nothing: the session already holds the answer, unless the
                                              question is about something that changes
    talk                                      nothing, or retrieve where it is about the assistant (`gate.talk`)

A plan named by the request takes the place of the scored one, and is lowered by the same denials.
`decide` reads no clock, draws no number and does no I/O. Products and their exact sum (`math.fsum`) are
rounded to six places, so the same signals and profile give the same bytes in every process.

A learned model (`gate.learned`) that is given decides in place of the score where the run is of its arm `canary` or
`promoted`; in every other arm its plan is only recorded beside.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime

from sluice.contracts.errors import Conflict
from sluice.contracts.gate import BudgetState, Contribution, CoverageProbed, GateDecided, GateRequested, PolicyState
from sluice.contracts.learning.control import NO_CONTROL, Control, ModelUse
from sluice.contracts.plan import Plan
from sluice.gate.budget import A_PAGE, NOTHING, affordable_searches, budget_denials
from sluice.gate.judge import judged_plan
from sluice.gate.learned.model import GateModel, choose_learned_plan, read_features
from sluice.gate.profile import Profile
from sluice.gate.seeds import SearchSeed, crawl_seeds, list_aims, search_seeds
from sluice.gate.signals import COVERAGE_FEATURES, Signals, plan_without_search, read_signals
from sluice.gate.veto import control_denials, embedder_denials, lower_plan, policy_denials

DECIMALS = 6
HEURISTIC = "heuristic"
"""In place of a model's version, where the profile's weights decided."""
_OF_VERDICT = {"sufficient": 0.0, "unsure": 0.5, "insufficient": 1.0}
DECIDING_ARMS = ("canary", "promoted")
"""Arms whose runs the learned model decides."""


def decide(
    request: GateRequested,
    probed: CoverageProbed,
    profile: Profile,
    policy: PolicyState,
    budget: BudgetState,
    decided_at: datetime,
    control: Control = NO_CONTROL,
    model: GateModel | None = None,
) -> GateDecided:
    """The plan for `request`, and all that led to it.

    `model` is the one that `control.model` names; it is asked where the probe's vectors are those that it knows.

    Raises:
        InvalidInput: a measurement of `probed` is not a finite number, or does not fit the request.
        Conflict: `model` is not the one that `control.model` names.
    """
    signals = read_signals(request, probed, profile)
    contributions = _contributions(signals, profile)
    score = compute_score(signals, profile)
    scored_plan = choose_plan(score, signals, profile)
    control = _ask_model(control, model, probed, signals, profile)
    wanted = request.plan or judged_plan(
        _learned_plan(control) or scored_plan, probed.judgement, is_stale=_is_stale(signals, profile)
    )

    seeds, refusals = crawl_seeds(request.seeds, wanted) if wanted is Plan.FULL_LOOP else ((), ())
    denials = (
        *policy_denials(policy),
        *embedder_denials(probed),
        *budget_denials(budget, request.limits),
        *control_denials(control),
    )
    plan, vetoes = lower_plan(wanted, denials, has_seeds=bool(seeds))
    searching = plan in (Plan.SEARCH, Plan.FULL_LOOP) and all(denial.capability != "search" for denial in denials)
    searches = _search_seeds(request, signals, profile, plan, budget, decided_at) if searching else ()
    return GateDecided(
        plan=plan,
        scored_plan=scored_plan,
        requested_plan=request.plan,
        score=score,
        threshold_search=profile.thresholds.search,
        threshold_full_loop=profile.thresholds.full_loop,
        contributions=(*contributions, *_of_judge(probed), *_unweighted(policy, budget)),
        vetoes=(*refusals, *vetoes),
        search_seeds=tuple(seed.query for seed in searches),
        search_aims=list_aims(searches),
        crawl_seeds=seeds if plan is Plan.FULL_LOOP else (),
        intent=signals.kind.intent,
        profile=profile.name,
        profile_version=profile.version,
        config_hash=profile.config_hash,
        coverage_probability=coverage_probability(signals, profile),
        generation=probed.generation,
        policy=policy,
        budget=budget,
        control=None if control == NO_CONTROL else control,
        decided_at=decided_at,
    )


def _ask_model(
    control: Control, model: GateModel | None, probed: CoverageProbed, signals: Signals, profile: Profile
) -> Control:
    """`control` with what the model says: its probability and its plan, or neither where it cannot be asked."""
    use = control.model
    if model is None or use is None:
        return control
    if use.model_sha256 != model.sha256:
        raise Conflict(f"the run's model is {use.model_sha256}, not {model.sha256}")
    probability, plan = None, None
    if probed.embedder_down is None and probed.model_fingerprint == model.embedder_fingerprint:
        probability = model.probability(read_features(probed)) if probed.hits else 0.0
        plan = choose_learned_plan(probability, model.thresholds, signals, profile)
    asked = ModelUse(**{**dict(use), "probability": probability, "plan": plan})
    return control.model_copy(update={"model": asked})


def _learned_plan(control: Control) -> Plan | None:
    """The model's plan where it counts: in its arms, unless the flag is off."""
    use = control.model
    if use is None or use.arm not in DECIDING_ARMS or "learned_gate" in control.flags_off:
        return None
    return use.plan


def _is_stale(signals: Signals, profile: Profile) -> bool:
    """Whether the score asks for a search whatever the corpus holds: its hits are too old."""
    return compute_score(signals, profile) - coverage_score(signals, profile) >= profile.thresholds.search


def compute_score(signals: Signals, profile: Profile) -> float:
    """The sum of weight x feature, rounded to six places."""
    weights = profile.weights
    products = (_product(feature.value, getattr(weights, feature.name)) for feature in signals.features)
    return round(math.fsum(products), DECIMALS)


def coverage_score(signals: Signals, profile: Profile) -> float:
    """The part of the score that says how much the corpus lacks the answer, whatever the age of its hits."""
    weighed = [(signals[name], getattr(profile.weights, name)) for name in COVERAGE_FEATURES if name in signals]
    return round(math.fsum(_product(value, weight) for value, weight in weighed), DECIMALS)


def coverage_probability(signals: Signals, profile: Profile) -> float | None:
    """How probable it is that the corpus answers the question, by a logistic of the coverage score.

    None where the profile has no calibration.
    """
    if profile.calibration is None:
        return None
    log_odds = profile.calibration.bias - profile.calibration.steepness * coverage_score(signals, profile)
    return round(1 / (1 + math.exp(-log_odds)), DECIMALS)


def choose_plan(score: float, signals: Signals, profile: Profile) -> Plan:
    """The plan that the signals ask for, before any request, rule or ceiling is looked at."""
    if (plan := plan_without_search(signals, profile)) is not None:
        return plan
    if score >= profile.thresholds.full_loop:
        return Plan.FULL_LOOP
    return Plan.SEARCH if score >= profile.thresholds.search else Plan.RETRIEVE


def depends_on_sentences(request: GateRequested, probed: CoverageProbed, profile: Profile) -> bool:
    """Whether the scored plan depends on the cosines of the sentences of `probed`, which are not measured yet.

    A nearer sentence can only lower the score. So where the nearest possible gives the plan that none gives, every
    other gives it too, and the sentences need not be embedded.

    Raises:
        InvalidInput: as `read_signals`.
    """
    if not probed.sentences:
        return False
    farthest = read_signals(request, probed, profile)
    features = [replace(one, value=0.0) if one.name == "sentence_dissimilarity" else one for one in farthest.features]
    nearest = replace(farthest, features=tuple(features))
    plans = {choose_plan(compute_score(signals, profile), signals, profile) for signals in (farthest, nearest)}
    return len(plans) > 1


def explain(
    request: GateRequested,
    probed: CoverageProbed,
    decided: GateDecided,
    profile: Profile,
    model: GateModel | None = None,
) -> GateDecided:
    """The recorded decision, computed again from what it was made of; its JSON equals the record's byte for byte.

    `model` is needed where the decision says that a model was asked (`needs_model`).

    Raises:
        Conflict: `profile` or `model` is not the one that the decision was made with.
    """
    if profile.config_hash != decided.config_hash:
        raise Conflict(f"the decision was made with profile {decided.config_hash}, not {profile.config_hash}")
    control, wanted = decided.control or NO_CONTROL, needs_model(decided)
    if wanted is not None and model is None:
        raise Conflict(f"the decision asked the model {wanted}: it cannot be computed again without it")
    asked = model if wanted is not None else None
    return decide(request, probed, profile, decided.policy, decided.budget, decided.decided_at, control, asked)


def needs_model(decided: GateDecided) -> str | None:
    """The SHA-256 of the model that was asked for a decision; None where none was."""
    use = decided.control.model if decided.control else None
    return use.model_sha256 if use is not None and use.probability is not None else None


def deciding_model(decided: GateDecided) -> str:
    """The version of the learned model that chose the plan, before any denial; `HEURISTIC` where none did."""
    control = decided.control
    if control is None or control.model is None or decided.requested_plan or _learned_plan(control) is None:
        return HEURISTIC
    return control.model.version


def _contributions(signals: Signals, profile: Profile) -> tuple[Contribution, ...]:
    return tuple(
        _contribution(one.name, one.value, getattr(profile.weights, one.name), one.raw) for one in signals.features
    )


def _of_judge(probed: CoverageProbed) -> tuple[Contribution, ...]:
    """What the judge said, shown among the features with weight 0: it moves the plan and not the score."""
    judgement = probed.judgement
    if judgement is None:
        return ()
    return (_contribution("judge", _OF_VERDICT[judgement.verdict], 0.0, f"{judgement.verdict}: {judgement.words}"),)


def _unweighted(policy: PolicyState, budget: BudgetState) -> tuple[Contribution, ...]:
    """Policy and budget, shown among the features with weight 0: they veto and never weigh."""
    allowed = (policy.search_allowed + policy.crawl_allowed) / 2
    told = f"search {_switch(policy.search_allowed)}, crawl {_switch(policy.crawl_allowed)}"
    payable = ((affordable_searches(budget) > 0) + (not budget.left.missing_for(A_PAGE))) / 2
    left = f"{_left(budget)}, a search costs {budget.search_usd_estimate:.4f} USD"
    return _contribution("policy", allowed, 0.0, told), _contribution("budget_left", payable, 0.0, left)


def _left(budget: BudgetState) -> str:
    """The lower of what the run and the day have left, in each unit under a ceiling."""
    least = ((unit, budget.left.least(unit)) for unit in ("usd", "pages", "bytes", "tokens", "milliseconds"))
    told = [f"{left:.4f} USD" if unit == "usd" else f"{left:.0f} {unit}" for unit, left in least if left is not None]
    return f"{' and '.join(told)} left" if told else "no ceiling"


def _contribution(feature: str, value: float, weight: float, raw: str) -> Contribution:
    return Contribution(feature=feature, value=value, weight=weight, contribution=_product(value, weight), raw=raw)


def _product(value: float, weight: float) -> float:
    return round(weight * value, DECIMALS) + 0.0  # adding 0.0 turns -0.0 into 0.0


def _search_seeds(
    request: GateRequested, signals: Signals, profile: Profile, plan: Plan, budget: BudgetState, decided_at: datetime
) -> tuple[SearchSeed, ...]:
    """As many of the profile's queries as the budget pays for, with a page besides where pages are crawled."""
    queries = search_seeds(
        request.query,
        profile.search,
        time_sensitive=signals.kind.time_sensitive,
        year=decided_at.year,
        session=request.session,
    )
    besides = A_PAGE if plan is Plan.FULL_LOOP else NOTHING
    return queries[: affordable_searches(budget, len(queries), besides=besides)]


def _switch(allowed: bool) -> str:
    return "on" if allowed else "off"
