"""Lowers a plan step by step by denials, and records each step.

Policy, budget, flags, the gate's fallbacks and the observing mode never affect the score. They deny a capability
(searching or crawling), and the plan falls to the farthest one that does without it:

    full_loop  without crawling                          ->  search
    full_loop  without searching, no seed to crawl from  ->  retrieve
    full_loop  without searching, with seeds             ->  stays, and crawls the seeds alone
    search     without searching                         ->  retrieve

The budget denies by the ceilings of a run and its day; here too is the work that still fits them. Everything is
arithmetic on the amounts left. The ledger ensures that no two workers overspend together: it checks each reservation
against the ceilings again, in the transaction that makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from sluice.contracts.budget import Ceiling, Ceilings, Spend
from sluice.contracts.event import Gap
from sluice.contracts.gate import BudgetState, CoverageProbed, Limits, PolicyState, Veto
from sluice.contracts.learning.control import Control, Step
from sluice.contracts.plan import Plan
from sluice.gate.settings import BudgetSettings

Capability = Literal["search", "crawl"]
_BOTH: tuple[Capability, ...] = ("crawl", "search")


@dataclass(frozen=True, slots=True)
class Denial:
    """One capability that is denied now, the reason, and the change that would allow it."""

    name: str
    capability: Capability
    why: str
    lifted_by: str


def lower_plan(plan: Plan, denials: Sequence[Denial], *, has_seeds: bool) -> tuple[Plan, tuple[Veto, ...]]:
    """Return the plan that the denials leave, and a veto for each name among them that applied. Crawl denials are
    applied before search denials, so that a plan falls one step at a time. Of two that deny the same capability, each
    is recorded with the whole step: both must be lifted. What denies both capabilities is one veto over both steps."""
    vetoes: dict[str, Veto] = {}
    asked = plan
    for capability in _BOTH:
        before, applied = plan, [one for one in denials if one.capability == capability and _needs(asked, capability)]
        plan = _without(before, capability, has_seeds) if applied else before
        for denial in applied:
            earlier = vetoes.get(denial.name)
            veto = _veto(denial, before, plan)
            vetoes[denial.name] = earlier.model_copy(update={"lowered_to": plan}) if earlier else veto
    return plan, tuple(vetoes.values())


def _needs(plan: Plan, capability: Capability) -> bool:
    return plan is Plan.FULL_LOOP or (plan is Plan.SEARCH and capability == "search")


def _without(plan: Plan, capability: Capability, has_seeds: bool) -> Plan:
    match plan, capability:
        case Plan.FULL_LOOP, "crawl":
            return Plan.SEARCH
        case Plan.FULL_LOOP, "search":
            return Plan.FULL_LOOP if has_seeds else Plan.RETRIEVE
        case Plan.SEARCH, "search":
            return Plan.RETRIEVE
        case _:
            return plan


def _veto(denial: Denial, before: Plan, after: Plan) -> Veto:
    alone = before is Plan.FULL_LOOP and after is Plan.FULL_LOOP
    why = f"{denial.why}; only the given seeds are crawled" if alone else denial.why
    return Veto(name=denial.name, lowered_from=before, lowered_to=after, why=why, lifted_by=denial.lifted_by)


def control_denials(control: Control) -> tuple[Denial, ...]:
    """Return the denials of `control`: by observing (all work outside), by flags, and by fallbacks."""
    denials = []
    if control.observe:
        denials += _deny("observe", "the gate only observes", 'gate.mode = "enforce" in sluice.toml')
    for capability in _BOTH:
        if capability in control.flags_off:
            lift = f"sluice flags {capability} --on"
            denials.append(Denial(f"flag_{capability}", capability, f"the flag {capability} is off", lift))
    for defence in () if control.is_trickle else control.defences:
        denied = _DENIED_BY[defence.step]
        denials += _deny(f"self_defence_{defence.name}", defence.why, defence.lifted_by, denied)
    return tuple(denials)


_DENIED_BY: dict[Step, tuple[Capability, ...]] = {
    "retrieve_only": _BOTH,
    "lower_plan": ("crawl",),
    "previous_configuration": (),  # the previous configuration decides instead
}


def _deny(name: str, why: str, lifted_by: str, capabilities: tuple[Capability, ...] = _BOTH) -> list[Denial]:
    return [Denial(name, capability, why, lifted_by) for capability in capabilities]


SEARCH_OFF = "web search is switched off"
NO_PROVIDER = "web search has no provider"
CRAWL_OFF = "crawling is switched off"
EGRESS_DENIED = "no request may leave this machine"
NOT_FOR_CORPUS = "the corpus's policy forbids it"
MEMORY_ALONE = "the corpus is an agent's memory, which takes no pages"

_LIFTED_BY = {
    SEARCH_OFF: "search.enabled = true in sluice.toml",
    NO_PROVIDER: 'search.providers in sluice.toml, for instance ["searxng"]',
    CRAWL_OFF: "crawl.enabled = true in sluice.toml",
    NOT_FOR_CORPUS: "search and crawl = true for the corpus under trust.corpora in sluice.toml",
    EGRESS_DENIED: 'egress.policy = "open", or "listed", in sluice.toml',
    MEMORY_ALONE: "another corpus",
}


MEMORY_POLICY = PolicyState(
    search_allowed=False, crawl_allowed=False, search_reason=MEMORY_ALONE, crawl_reason=MEMORY_ALONE
)
"""The policy of an agent's memory: what a search finds may not become a document of it."""


def policy_state(
    *, search_enabled: bool, search_providers: int, crawl_enabled: bool, egress_allowed: bool
) -> PolicyState:
    """Return the actions that the settings allow. `search_providers` is the number of configured providers."""
    egress_reason = "" if egress_allowed else EGRESS_DENIED
    search_reason = SEARCH_OFF if not search_enabled else NO_PROVIDER if search_providers < 1 else egress_reason
    crawl_reason = egress_reason if crawl_enabled else CRAWL_OFF
    return PolicyState(
        search_allowed=not search_reason,
        crawl_allowed=not crawl_reason,
        search_reason=search_reason,
        crawl_reason=crawl_reason,
    )


def policy_of_corpus(state: PolicyState, *, search: bool, crawl: bool) -> PolicyState:
    """Return the instance's state with the actions off that the corpus's policy forbids."""
    changes: dict[str, object] = {}
    if state.search_allowed and not search:
        changes |= {"search_allowed": False, "search_reason": NOT_FOR_CORPUS}
    if state.crawl_allowed and not crawl:
        changes |= {"crawl_allowed": False, "crawl_reason": NOT_FOR_CORPUS}
    return state.model_copy(update=changes) if changes else state


def embedder_denials(probed: CoverageProbed) -> tuple[Denial, ...]:
    """Deny searching and crawling while the embedding model is out of reach: results could not be indexed."""
    down = probed.embedder_down
    return () if down is None else tuple(_deny("embedder_down", down, "the embedding model answers again"))


def policy_denials(policy: PolicyState) -> tuple[Denial, ...]:
    """Return the policy's denials. A reason from elsewhere is kept as it is."""
    crawl, search = policy.crawl_reason or CRAWL_OFF, policy.search_reason or SEARCH_OFF
    denials: list[Denial] = []
    if not policy.crawl_allowed:
        denials.append(Denial("crawl_policy", "crawl", crawl, _LIFTED_BY.get(crawl, _LIFTED_BY[CRAWL_OFF])))
    if not policy.search_allowed:
        denials.append(Denial("search_policy", "search", search, _LIFTED_BY.get(search, _LIFTED_BY[SEARCH_OFF])))
    return tuple(denials)


Item = TypeVar("Item")
Number = TypeVar("Number", int, float)

LEAST_TOKENS = 256
"""The local model's input size. With less left, no found text could be embedded."""
A_PAGE = Spend(pages=1, bytes=1, milliseconds=1.0)
NOTHING = Spend()


@dataclass(frozen=True, slots=True)
class Fitting(Generic[Item]):
    """The items that are affordable together, their cost, and a gap for each of the others."""

    items: tuple[Item, ...]
    cost: Spend
    gaps: tuple[Gap, ...]


def lowest_ceilings(
    budget: BudgetSettings, limits: Limits, *, max_pages: int, max_bytes: int, named_pages: int = 0
) -> Ceilings:
    """Return the ceilings of a run and its day: the settings, lowered by the request's limits. `max_pages` and
    `max_bytes` are a run's defaults; a request that names `named_pages` pages gets all of them, and bytes in
    proportion."""
    pages = max(max_pages, named_pages)
    run = Ceiling(
        pages=lowest(budget.run_pages, limits.max_pages, pages),
        bytes=lowest(budget.run_bytes, limits.max_bytes, max_bytes * pages // max(max_pages, 1)),
        tokens=lowest(budget.run_tokens, limits.max_tokens),
        milliseconds=lowest(budget.run_milliseconds, limits.max_milliseconds),
        usd=lowest(budget.run_usd, limits.max_usd),
    )
    day = Ceiling(**{unit: getattr(budget, f"day_{unit}") for unit in Ceiling.model_fields})
    return Ceilings(run=run, day=day)


def budget_denials(budget: BudgetState, limits: Limits) -> tuple[Denial, ...]:
    """Return the budget's denials: of a search without room for one, of a crawl without room for one more page. Both
    need room for embedding the results."""
    search = _searches(budget, 1)
    crawl = A_PAGE + search if affordable_searches(budget) else A_PAGE
    return (*_denials("crawl", crawl, budget, limits), *_denials("search", search, budget, limits))


def affordable_searches(budget: BudgetState, most: int = 1, *, besides: Spend = NOTHING) -> int:
    """Return the number of affordable searches, up to `most`, besides other work. A free one is always affordable."""
    left = budget.left
    return sum(not left.missing_for(_searches(budget, calls) + besides) for calls in range(1, most + 1))


def fit_within(
    left: Ceilings, wanted: Iterable[tuple[Item, Spend]], *, stage: str, subject: Callable[[Item], str]
) -> Fitting[Item]:
    """Return the items that fit, in order. `subject` names an omitted item in its gap."""
    items: list[Item] = []
    gaps: list[Gap] = []
    cost = Spend()
    for item, price in wanted:
        missing = left.missing_for(cost + price)
        if missing:
            gaps.append(_no_room(stage, subject(item), missing, left, cost, price))
        else:
            items.append(item)
            cost += price
    return Fitting(tuple(items), cost, tuple(gaps))


def lifted_by(ceiling: str) -> str:
    """Return the remedy for a ceiling by its name: `run_tokens`, `day_usd`."""
    whose, _, unit = ceiling.partition("_")
    lifts = (_DAY_LIFT.format(unit),) if whose == "day" else (_OF_REQUEST.format(unit), _run_setting(unit))
    return ", or ".join(dict.fromkeys(lifts))


_DAY_LIFT = "budget.day_{} in sluice.toml, or the next UTC day"
_OF_REQUEST = "limits.max_{} of the request"


def _denials(capability: Capability, needed: Spend, budget: BudgetState, limits: Limits) -> Iterable[Denial]:
    for whose, ceiling in budget.left:
        for unit in ceiling.missing_for(needed + Spend(tokens=LEAST_TOKENS)):
            least = LEAST_TOKENS if unit == "tokens" else getattr(needed, unit)
            why = _why(capability, whose, unit, least, getattr(ceiling, unit))
            lowered = getattr(limits, f"max_{unit}") is not None
            lift = _DAY_LIFT if whose == "day" else _OF_REQUEST if lowered else _run_setting(unit)
            yield Denial(f"{whose}_{unit}", capability, why, lift.format(unit))


def _searches(budget: BudgetState, calls: int) -> Spend:
    return Spend(usd=budget.search_usd_estimate * calls, milliseconds=budget.search_milliseconds_estimate * calls)


def _why(capability: str, whose: str, unit: str, needed: float, left: float) -> str:
    if unit == "pages":
        return f"the {whose} has no page left"
    if unit == "usd":
        return f"one search costs {needed:.4f} USD and the {whose} has {left:.4f} USD left"
    return f"a {capability} takes {needed:,.0f} {unit} at least and the {whose} has {left:,.0f} left"


def _no_room(stage: str, subject: str, missing: tuple[str, ...], left: Ceilings, taken: Spend, price: Spend) -> Gap:
    whose, _, unit = missing[0].partition("_")
    free = max(0, getattr(getattr(left, whose), unit) - getattr(taken, unit))
    return Gap(
        stage=stage,
        subject=subject,
        reason="budget_exhausted",
        detail=f"{missing[0]}: {free:g} left, {getattr(price, unit):g} needed",
        lifted_by=lifted_by(missing[0]),
    )


def _run_setting(unit: str) -> str:
    settings = {"pages": "crawl.max_pages in sluice.toml", "usd": "budget.run_usd in sluice.toml"}
    return settings.get(unit, _OF_REQUEST.format(unit))


def lowest(*most: Number | None) -> Number | None:
    """Return the lowest of some ceilings; None without any."""
    return min((one for one in most if one is not None), default=None)
