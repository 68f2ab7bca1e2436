"""What agents remember, and the graph of what is indexed."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import Query, Response
from fastapi.responses import RedirectResponse

from sluice.api.access import CONSOLE
from sluice.api.console.figures import GRAPH_HEIGHT, GRAPH_WIDTH, rings, short
from sluice.api.console.frame import Operating, Visiting, pages
from sluice.contracts.errors import InvalidInput, NotFound, checked
from sluice.contracts.memory.api import LearningPatch
from sluice.contracts.memory.learning import FeatureLearning, LearningState
from sluice.contracts.memory.names import FEATURE_NAME

knowledge = pages()
PART = 50
MOST_NEIGHBOURS = 60
States = Annotated[str, Query(pattern="^(active|rejected|pruned|all)$")]
DONE: dict[str, tuple[str, dict[str, Any]]] = {
    "approve": ("is approved: somebody looked at it", {"reviewed": True}),
    "reject": ("is rejected: no prompt has it any more", {"rejected": True}),
    "retract": ("is offered to prompts again: its rejection is taken back", {"rejected": False}),
    "keep": ("is kept; the one that differs is rejected", {}),
}
"""What is said of a learning after each action, and what it changes."""


@knowledge.get("/memory")
def projects(visit: Visiting, before: str | None = None) -> Response:
    """Show the projects with a memory, by name."""
    found = visit.instance.memory.projects(visit.caller, PART + 1, before)
    rest = found[PART:]
    return visit.show("projects.html", projects=found[:PART], before=found[PART - 1].project if rest else None)


@knowledge.get("/memory/{project:path}")
def learnings(
    visit: Visiting, project: str, feature: str = "", state: States = "active", before: str | None = None
) -> Response:
    """Show the learnings of a feature, the newest first; that they are looked at is recorded."""
    memory = visit.instance.memory.of(project, visit.caller)
    features = memory.features()
    if not features:
        raise NotFound(f"nothing was remembered of project {project[:200]!r} yet, or your key covers no feature of it")
    feature = feature or features[0]
    if feature not in features:
        raise NotFound(f"project {project[:200]!r} has no feature {feature[:200]!r} that your key covers")
    visit.looked("memory_read", f"memory:{project}:{feature}")
    held = memory.learnings(feature, state=None)
    by_id = {one.id: one for one in held.learnings}
    found = [one for one in reversed(held.learnings) if state in ("all", one.state)]
    places = {one.id: place for place, one in enumerate(found)}
    begin = places.get(before or "", -1) + 1
    part = found[begin : begin + PART]
    return visit.show(
        "memory.html",
        project=project,
        features=features,
        feature=feature,
        state=state,
        states=(*(one.value for one in LearningState), "all"),
        learnings=part,
        before=part[-1].id if begin + PART < len(found) else None,
        conflicts=[(by_id[one], by_id[other]) for one, other in held.conflicts if {one, other} <= by_id.keys()],
        to_review=set(held.to_review),
    )


@knowledge.post("/learnings/{learning_id}/{action}")
def review(visit: Operating, learning_id: str, action: str) -> Response:
    """Approve, reject or offer a learning again, or keep it over one that differs."""
    if action not in DONE:
        raise NotFound(f"nothing is done to a learning by {action[:50]!r}")
    told, changes = DONE[action]
    if action == "keep":
        changes = {"keep_over": visit.form.get("over")}
    feature, note = visit.form.get("feature", ""), visit.note()
    if not FEATURE_NAME.fullmatch(feature):
        raise InvalidInput("feature", "is none")
    patch = checked(LearningPatch, **changes, note=note)
    project = visit.form.get("project", "")
    changed: FeatureLearning = visit.instance.memory.of(project, visit.caller).patch(feature, learning_id, patch)
    subject = f"memory:{project}:{feature}:{learning_id}"
    visit.instance.context.ledger.console.record(visit.caller.owner, f"learning_{action}", [subject], note)
    return visit.done(f"“{changed.text[:200]}” {told}.")


@knowledge.get("/graph")
def graphs(visit: Visiting, corpus: str | None = None, node: str = "") -> Response:
    """Show how each graph stands; with a corpus and a node lead to that node."""
    if corpus and node.strip():
        return RedirectResponse(_address(corpus, node.strip()), 303)
    return visit.show("graphs.html", graphs=visit.instance.graph.every(visit.caller), corpus=corpus)


@knowledge.get("/graph/{node:path}")
def neighbours(visit: Visiting, node: str, corpus: str = "default") -> Response:
    """Show a node and what is next to it, the surest first."""
    problem, found = "", None
    try:
        found = visit.instance.graph.neighbours(corpus, node, visit.caller, limit=MOST_NEIGHBOURS)
    except InvalidInput as error:
        problem = f"{error.problem} ({error.remedy})" if error.remedy else error.problem
    return visit.show(
        "graph.html",
        422 if problem else 200,
        corpus=corpus,
        asked=node,
        problem=problem,
        found=found,
        nodes=rings(found) if found else (),
        middle=short(found.node.name) if found else "",
        width=GRAPH_WIDTH,
        height=GRAPH_HEIGHT,
    )


def _address(corpus: str, node: str) -> str:
    return f"{CONSOLE}/graph/{quote(node, safe='/:')}?{urlencode({'corpus': corpus})}"


ROUTERS = (knowledge,)
