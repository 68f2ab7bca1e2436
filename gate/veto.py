"""Lowers a plan step by step by denials, and records each step.

Policy, budget, flags, the gate's fallbacks and the observing mode never affect the score. They deny a capability
(searching or crawling), and the plan falls to the farthest one that does without it:

    full_loop  without crawling                          ->  search
    full_loop  without searching, no seed to crawl from  ->  retrieve
    full_loop  without searching, with seeds             ->  stays, and crawls the seeds alone
    search     without searching                         ->  retrieve
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sluice.contracts.gate import CoverageProbed, PolicyState, Veto
from sluice.contracts.learning.control import Control, Step
from sluice.contracts.plan import Plan

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
