"""The corpora, what one holds, its generations and documents; and the quarantine, which holds passages back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, get_args

from fastapi import Query, Response

from sluice.api.console.frame import Operating, Visit, Visiting, pages
from sluice.api.console.hub import streamed
from sluice.api.documents import condition
from sluice.contracts.errors import InvalidInput, checked
from sluice.contracts.operations.corpora import DocumentOrder, DocumentView
from sluice.contracts.operations.quarantine import QuarantinePage, QuarantineState
from sluice.contracts.trust import Finding

corpora, quarantine = pages(), pages()
PART, DOCUMENTS, HELD_PART = 25, 50, 50
MOST_READ = 5_000
"""Documents that one part of a filtered list looks through: some hundred milliseconds."""
ORDERS = get_args(DocumentOrder)
STATES = (*get_args(QuarantineState), "any")


@corpora.get("/corpora")
def some(visit: Visiting, before: str | None = None) -> Response:
    """Show the corpora by name."""
    found = visit.instance.corpora.some(visit.caller, PART + 1, before)
    rest = found[PART:]
    return visit.show("corpora.html", corpora=found[:PART], before=found[PART - 1].name if rest else None)


@corpora.get("/corpora/{corpus}")
def one(
    visit: Visiting,
    corpus: str,
    q: str = "",
    where: str = "",
    order: Annotated[DocumentOrder, Query()] = "id",
    before: str | None = None,
) -> Response:
    """Show one corpus, and a part of its documents."""
    figures, problem, position = figures_of_corpus(visit, {"corpus": corpus}), "", None
    found: Sequence[DocumentView] = ()
    try:
        asked = condition(where.strip() or None), q.strip() or None, order
        found, position = visit.instance.documents.look_through(
            visit.caller, corpus, *asked, DOCUMENTS, before, MOST_READ
        )
    except InvalidInput as error:
        problem = f"{error.problem} ({error.remedy})"
    return visit.show(
        "corpus.html",
        documents=found,
        before=position,
        problem=problem,
        q=q,
        where=where,
        order=order,
        orders=ORDERS,
        most=MOST_READ,
        **figures,
    )


def touches(visit: Visit, parameters: Mapping[str, str]) -> None:
    """Require a key of the corpus."""
    visit.instance.corpora.require(parameters.get("corpus", ""), visit.caller)


@streamed("corpus", "corpus_figures.html", needs=touches, seconds=5)
def figures_of_corpus(visit: Visit, parameters: Mapping[str, str]) -> Mapping[str, Any]:
    """Read what a corpus's page shows above its documents."""
    name = parameters.get("corpus", "")
    return {
        "corpus": visit.instance.corpora.one(name, visit.caller),
        "state": visit.instance.corpora.state(name, visit.caller),
    }


@corpora.post("/corpora/{corpus}/verify")
def verify(visit: Operating, corpus: str) -> Response:
    """Read every file of a generation again."""
    generation = visit.form.get("generation", "")
    found = visit.instance.corpora.verify(corpus, generation, visit.caller)
    told = f"{generation} is NOT as it was published: {found.problem}" if found.problem else ""
    return visit.done(told or f"{generation} is as it was published: every file was read and compared.")


@corpora.post("/corpora/{corpus}/serve")
def serve(visit: Operating, corpus: str) -> Response:
    """Verify another generation, and serve it."""
    generation = visit.form.get("generation", "")
    visit.instance.corpora.roll_back(corpus, generation, visit.caller, visit.note())
    return visit.done(f"{generation} is served, until there are new records to publish.")


@corpora.post("/corpora/{corpus}/recheck")
def recheck(visit: Operating, corpus: str) -> Response:
    """Request the pages that are due again."""
    accepted = visit.instance.corpora.recheck(corpus, visit.caller)
    return visit.done(f"Run {accepted.run_id} asks for the pages that are due.")


@quarantine.get("/quarantine")
def held(
    visit: Operating,
    state: str = "held",
    corpus: str = "",
    rule: str = "",
    url_prefix: str = "",
    before: str | None = None,
) -> Response:
    """Show passages that meet the filters, the latest first."""
    asked = {"state": state, "rule": rule.strip() or None, "url_prefix": url_prefix.strip() or None}
    wanted = checked(QuarantinePage, corpora=(corpus,) if corpus else None, limit=HELD_PART + 1, cursor=before, **asked)
    found = visit.instance.quarantine.some(wanted, visit.caller)
    return visit.show(
        "quarantine.html",
        held=found[:HELD_PART],
        before=found[HELD_PART - 1].position if len(found) > HELD_PART else None,
        filters={"state": state, "corpus": corpus, "rule": rule, "url_prefix": url_prefix},
        states=STATES,
    )


@quarantine.get("/quarantine/{held_id}")
def facts(visit: Operating, held_id: str) -> Response:
    """Show one passage without its text."""
    return visit.show("held.html", held=visit.instance.quarantine.one(held_id, visit.caller), pieces=None)


@quarantine.get("/quarantine/{held_id}/text")
def text(visit: Operating, held_id: str) -> Response:
    """Show one passage with its text; that somebody looks is recorded before it is read."""
    visit.looked("quarantine_read", held_id)
    found = visit.instance.quarantine.one(held_id, visit.caller)
    return visit.show("held.html", held=found, pieces=pieces(found.text or "", found.findings))


@quarantine.post("/quarantine/{held_id}/release")
def release(visit: Operating, held_id: str) -> Response:
    """Let a passage through."""
    done = visit.instance.quarantine.release(held_id, visit.caller, visit.note(why=""))
    return visit.done(
        f"It is let through; {done.waits_for}."
        if done.waits_for
        else f"It is let through: run {done.run_id} indexes it."
    )


@quarantine.post("/quarantine/{held_id}/purge")
def purge(visit: Operating, held_id: str) -> Response:
    """Remove a passage's text for good."""
    visit.instance.quarantine.purge(held_id, visit.caller, visit.note(why=""))
    return visit.done("Its text is removed for good; the facts stay.")


def pieces(text: str, findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """Return a text in pieces, each with the names of the rules that found it, "" for none."""
    ends = sorted({0, len(text), *(min(end, len(text)) for one in findings for end in (one.start, one.end))})
    return [
        (text[begin:end], ", ".join(dict.fromkeys(one.rule for one in findings if one.start <= begin < one.end)))
        for begin, end in pairwise(ends)
    ]


ROUTERS = (corpora, quarantine)
