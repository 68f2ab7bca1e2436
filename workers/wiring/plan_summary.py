"""What an agent can act on after a run: what was decided and done, what is missing, and which tools to call next.

It follows from recorded facts alone: the same events give the same summary. Tools have the names and the arguments that
they have over MCP.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from sluice.contracts.api import ENDED, NextStep, PlanSummary, RunView, ToolName
from sluice.contracts.event import Gap
from sluice.contracts.index import Answer
from sluice.contracts.ingest import EgressRefused
from sluice.contracts.plan import Plan

MOST_MISSING, MOST_STEPS, MOST_URLS = 10, 4, 5
MOST_CHARACTERS = 300
"""Longest sentence of what is missing."""
CODE_INTENTS = frozenset({"code_lookup", "dependency_version"})
INSIDE = (Plan.SKIP, Plan.RETRIEVE)
LATE = frozenset({"deadline", "budget_exhausted", "seed_not_crawled"})
"""Reasons for which a page was not read that another run need not have."""
DONE: Mapping[str, str] = {
    "SearchCompleted": "searches of the web",
    "CrawlDirected": "pages asked for",
    "PageCrawled": "pages read",
    "PageUnchanged": "pages found unchanged",
    "PageWithdrawn": "pages withdrawn",
}
"""What is told of a run's events, by their kind."""


def summarise(run: RunView, counts: Mapping[str, int], refused: Sequence[EgressRefused]) -> PlanSummary:
    """Return the summary of a run. `counts` are its events by kind, `refused` what the egress proxy did not let out."""
    return PlanSummary(
        decided=_decided(run),
        done=tuple(_done(run, counts)),
        missing=_first(MOST_MISSING, _missing(run, refused)),
        next_steps=tuple(islice(_next_steps(run), MOST_STEPS)),
    )


def _decided(run: RunView) -> str:
    if run.decision is None:
        return "no decision yet" if run.kind == "gate" else f"no decision: a run of kind {run.kind}"
    made = run.decision
    told = f"plan {made.plan} by profile {made.profile}, score {made.score:.2f}"
    told += f" (search from {made.threshold_search:.2f}, full_loop from {made.threshold_full_loop:.2f})"
    if made.requested_plan is not None:
        told += ", as the request asked"
    return told + "".join(
        f"; lowered from {veto.lowered_from} to {veto.lowered_to}: {veto.why}" for veto in made.vetoes
    )


def _done(run: RunView, counts: Mapping[str, int]) -> Iterator[str]:
    for kind, told in DONE.items():
        if counts.get(kind):
            yield f"{counts[kind]} {told}"
    if run.answer is not None:
        sources = len({one.source.partition(":")[0] if one.url is None else one.url for one in run.answer.citations})
        sure = "" if run.answer.confidence is None else f", confidence {run.answer.confidence:.2f}"
        yield f"answered with {len(run.answer.citations)} citations of {sources} sources{sure}"


def _missing(run: RunView, refused: Sequence[EgressRefused]) -> Iterator[str]:
    for one in run.stale:
        yield f"citation {one.citation} is {one.what} at its source since {one.changed_at:%Y-%m-%d}"
    for gap in _gaps(run):
        lift = f" (lifted by: {gap.lifted_by})" if gap.lifted_by else ""
        yield f"{gap.stage}: {gap.subject}: {gap.detail or gap.reason}{lift}"
    for host in dict.fromkeys(f"{one.host}: refused by {one.rule}: {one.detail}" for one in refused):
        yield f"host {host}"
    if run.answer is None:
        return
    if run.answer.limits:
        yield run.answer.limits
    for citation in run.answer.citations:
        for claim in citation.insights.claims if citation.insights else ():
            yield f"citation {citation.number} claims {claim.text!r}, which needs {claim.needs}"


def _next_steps(run: RunView) -> Iterator[NextStep]:
    """Yield the tools to call, the most urgent first."""
    if run.status not in ENDED:
        yield _step("sluice_get_run", "it is under way", run_id=run.run_id, wait_seconds=25)
        return
    if run.kind != "gate" or run.query is None:
        if run.status == "finished":
            yield _step("sluice_list", "its documents can be found now", what="documents", corpus=run.corpus)
        return
    asking = {"query": run.query, "corpus": run.corpus}
    if run.status != "finished":
        yield _step("sluice_ask", f"the run was {run.status}: ask again", **asking)
        return
    if run.stale:
        yield _step("sluice_ask", "cited passages have changed since: ask for what is fresh", **asking, freshness="day")
    answer = run.answer
    is_weak = answer is None or not answer.citations or bool(answer.limits)
    if is_weak or _is_short(run):
        yield from _for_more(run, asking)
    if answer is None or not answer.citations:
        return
    if not is_weak:
        yield _reading(answer)
    why = "tell the outcome (success, partial, failure), and which citations served or were bad evidence"
    yield _step("sluice_feedback", why, run_id=run.run_id)


def _for_more(run: RunView, asking: dict[str, Any]) -> Iterator[NextStep]:
    """Yield the ways to what the answer lacks."""
    decision, gaps = run.decision, _gaps(run)
    late = [gap.subject for gap in gaps if gap.reason in LATE and gap.subject.startswith(("http://", "https://"))]
    if late and not any(veto.lowered_to in INSIDE for veto in (decision.vetoes if decision else ())):
        pages = [{"url": url} for url in dict.fromkeys(late)][:MOST_URLS]
        yield _step("sluice_add_documents", "pages that this run did not come to", corpus=run.corpus, documents=pages)
    if any(gap.reason == "max_tokens" for gap in gaps):
        yield _step("sluice_ask", "passages did not fit: allow more tokens", **asking, max_tokens=15_000)
    if decision is not None and (decision.profile == "code" or decision.intent in CODE_INTENTS):
        yield _step("code_search", "look for the code itself", **asking)
    if decision is not None and decision.vetoes and decision.plan in INSIDE:
        why = f"the web was not asked ({decision.vetoes[-1].why}): hand in the text or the address of a source"
        yield _step("sluice_add_documents", why, corpus=run.corpus, documents=[])
    elif decision is not None and decision.plan in INSIDE:
        yield _step("sluice_ask", "look outside for what is fresh", **asking, freshness="week")
    why = "see weaker passages, or ask in other words"
    yield _step("sluice_query", why, query=run.query, corpora=[run.corpus], top_k=20)


def _is_short(run: RunView) -> bool:
    return any(gap.reason in (*LATE, "max_tokens") and gap.subject != "rerank" for gap in _gaps(run))


def _reading(answer: Answer) -> NextStep:
    """Return the step that reads around the first citation."""
    chunk = next(one for one in answer.chunks if one.chunk_id == answer.citations[0].chunk_id)
    lines = {"start_line": max(1, chunk.start_line - 20), "max_lines": chunk.end_line - chunk.start_line + 41}
    arguments = {"document_id": chunk.document_id, "corpus": answer.corpus, **lines}
    return _step("sluice_read_document", "read around citation 1", **arguments)


def _gaps(run: RunView) -> list[Gap]:
    """Return what the run and its answer lack, each once."""
    both = (*(run.answer.missing if run.answer else ()), *run.missing)
    return list({(gap.stage, gap.subject, gap.reason): gap for gap in both}.values())


def _step(tool: ToolName, why: str, **arguments: Any) -> NextStep:
    return NextStep(tool=tool, arguments=arguments, why=why[:MOST_CHARACTERS])


def _first(most: int, sentences: Iterator[str]) -> tuple[str, ...]:
    """Return the first sentences, cut, and the number of further ones."""
    found = [one[:MOST_CHARACTERS] for one in dict.fromkeys(sentences)]
    more = (f"and {len(found) - most} more",) if len(found) > most else ()
    return (*found[:most], *more)
