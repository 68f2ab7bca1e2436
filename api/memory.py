"""Routes for agents' memory: record iterations, add and review learnings, recall, print prompt blocks.

A key may touch a feature if it lists the name of the feature's collection as a corpus: see docs/memory-service.md.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import StreamingResponse

from sluice.api.access import AnyCaller, Operator, instance_of
from sluice.api.lists import Cursor, paged, whole
from sluice.api.problems import problems
from sluice.api.requests import about_run
from sluice.contracts.api import Page, RunAccepted
from sluice.contracts.errors import PolicyRefused
from sluice.contracts.memory import api as values
from sluice.contracts.memory.learning import FeatureLearning, LearningId, LearningState
from sluice.contracts.memory.names import FeatureName, ProjectPath
from sluice.contracts.retrieval import MAX_QUERY_CHARACTERS
from sluice.workers.service.memories import DEFAULT_TOP_K, InstanceMemory

router = APIRouter(prefix="/v1/memory", tags=["memory"])
ROUTERS = (router,)

Project = Annotated[ProjectPath, Query(description="What the project is known by: its folder, or any name of it")]
Feature = Annotated[FeatureName, Query(description="The feature that is worked on")]
TaskId = Annotated[int | None, Query(ge=0, description="Besides what is of the whole feature, only of this task")]


async def _memory(request: Request, caller: AnyCaller, project: Project) -> InstanceMemory:
    return instance_of(request).memory.of(project, caller)


async def _operated_memory(request: Request, caller: Operator, project: Project) -> InstanceMemory:
    return instance_of(request).memory.of(project, caller)


Memory = Annotated[InstanceMemory, Depends(_memory)]
OperatedMemory = Annotated[InstanceMemory, Depends(_operated_memory)]
"""Memory for operators' keys alone."""

LINES = "application/x-ndjson"


class JsonLines(StreamingResponse):
    """One JSON object per line."""

    media_type = LINES


@router.post("/iterations", status_code=202, responses=problems(409, 413, 503, 507), summary="Remember an iteration")
def record(request: Request, body: values.IterationSubmission, caller: AnyCaller) -> values.IterationAccepted:
    """Record an iteration. The next prompt has it at once; recall finds it in the index when the run is finished. Its
    content identifies it: the same submission again gives the same entry, and no second run. Without a run the queues
    have no room now, and the index catches up later."""
    memory = instance_of(request).memory.of(body.project, caller)
    return about_run(request, memory.record(body.feature, body.data, format=body.format, context=body.context))


@router.post("/learnings", status_code=202, responses=problems(409, 413, 503, 507), summary="Add a learning")
def learn(request: Request, body: values.LearningRequest, caller: AnyCaller) -> values.LearningResult:
    """Add a learning. One that repeats an earlier one is counted there; a near one that differs is kept beside it."""
    memory = instance_of(request).memory.of(body.project, caller)
    told = memory.learn(body.feature, body.text, body.reason, body.source, body.iteration, body.task_id)
    return about_run(request, told)


@router.patch(
    "/learnings/{learning_id}", responses=problems(404, 409, 413, 503, 507), summary="Change or review one learning"
)
def patch(
    request: Request,
    body: values.LearningPatch,
    learning_id: Annotated[LearningId, Path()],
    memory: Memory,
    feature: Feature,
) -> FeatureLearning:
    """Change what the body names. `reviewed` says that somebody looked at it, never that it is true."""
    return memory.patch(feature, learning_id, body)


@router.put("/learnings", responses=problems(), summary="Refused: learnings are not replaced in bulk")
@router.put("/learnings/{learning_id}", responses=problems(), include_in_schema=False)
@router.patch("/learnings", responses=problems(), include_in_schema=False)
@router.delete("/learnings", responses=problems(), include_in_schema=False)
def refuse_replacement(_caller: AnyCaller) -> None:
    """Refuse a list that replaces all learnings (403): it would lose what others added meanwhile."""
    raise PolicyRefused(
        "memory.append_only",
        "learnings are not replaced in bulk: what others have learned meanwhile would be lost",
        "add one by POST /v1/memory/learnings, change or reject one by PATCH /v1/memory/learnings/{id}",
    )


@router.get("/learnings", responses=problems(503), summary="The learnings of a feature")
def learnings(
    request: Request,
    memory: Memory,
    feature: Feature,
    task_id: TaskId = None,
    state: Annotated[LearningState | None, Query(description="Only those; without it all")] = None,
) -> values.Learnings:
    """Return the learnings, newest last, and the undecided pairs that differ."""
    return memory.learnings(feature, state=state, task_id=task_id)


@router.get("/recall", responses=problems(503), summary="What memory holds on a question")
def recall(
    request: Request,
    memory: Memory,
    feature: Feature,
    query: Annotated[str, Query(min_length=1, max_length=MAX_QUERY_CHARACTERS, pattern=r"\S")],
    top_k: Annotated[int, Query(ge=1, le=100)] = DEFAULT_TOP_K,
    task_id: TaskId = None,
) -> values.Recall:
    """Return iterations and learnings of this feature alone, best first. While the index is unavailable, words are
    compared with the journal itself: `searched` says so."""
    return memory.recall(feature, query, top_k, task_id)


@router.post(
    "/prompt",
    name="record_prompt",
    responses=problems(503, 507),
    summary="A block for the next iteration's prompt, recorded",
)
@router.get("/prompt", responses=problems(503), summary="A block for the next iteration's prompt, not recorded")
def prompt(
    request: Request,
    memory: Memory,
    feature: Feature,
    iteration: Annotated[
        int | None, Query(ge=1, le=values.MAX_ITERATION, description="The iteration that is to begin; counted on else")
    ] = None,
    session: Annotated[str | None, Query(min_length=1, max_length=128, description="The agent's session")] = None,
    task_id: TaskId = None,
    query: Annotated[str, Query(max_length=MAX_QUERY_CHARACTERS, description="What it is about")] = "",
    max_tokens: Annotated[int | None, Query(ge=50, le=20_000)] = None,
) -> values.PromptBlock:
    """Return the errors of the last iterations first, then learnings as observations, from the journal as it is now.
    POST records the printed lines, so that an agent that only repeats them has learned nothing new: the same block for
    the same iteration and session once. GET writes nothing."""
    wanted = {"iteration_number": iteration, "session_id": session, "task_id": task_id, "query": query}
    return memory.prompt(feature, max_tokens=max_tokens, records=request.method == "POST", **wanted)


@router.get("/status", responses=problems(503), summary="How a project's memory fares")
def status(memory: Memory) -> values.RagStatus:
    """Return index and embedder, counts and the lag of the index, for the features that the key may touch."""
    return memory.status()


@router.get("/features", responses=problems(503), summary="The features that have a journal")
def features(memory: Memory) -> Page[str]:
    """Return the features of the project that the key may touch, sorted."""
    return whole(memory.features())


@router.get("/projects", responses=problems(503), summary="The projects that have a memory")
def projects(
    request: Request, caller: AnyCaller, limit: Annotated[int, Query(ge=1, le=500)] = 100, cursor: Cursor = None
) -> Page[values.RememberedProject]:
    """Return the projects of which the key may touch a feature by name, with those features."""
    desk = instance_of(request).memory
    return paged(request, limit, lambda *part: desk.projects(caller, *part), attrgetter("project"))


@router.post("/undo", responses=problems(404, 503, 507), summary="Take back that a text repeats a learning")
def undo(
    request: Request,
    memory: OperatedMemory,
    feature: Feature,
    entry_id: Annotated[str, Query(min_length=1, max_length=100, description="The journal's entry that counted it")],
) -> Page[FeatureLearning]:
    """Make the text a learning of its own. The answer holds it, unless an equal one stands already."""
    return whole(memory.undo(feature, entry_id))


@router.post("/prune", responses=problems(404, 503, 507), summary="Put aside what nothing came of")
def prune(request: Request, memory: OperatedMemory, feature: Feature) -> Page[FeatureLearning]:
    """Put aside old learnings that a rule found once and that nobody used or reviewed. A review brings them back."""
    return whole(memory.prune(feature))


@router.post(
    "/rebuild",
    status_code=202,
    responses=problems(404, 503, 507),
    summary="Bring the index up to what the journals say",
)
def rebuild(
    request: Request,
    memory: OperatedMemory,
    feature: Annotated[FeatureName | None, Query(description="This one alone; without it all")] = None,
) -> Page[RunAccepted]:
    """Begin runs that send what the index lacks and remove its surplus; none where it lacks nothing."""
    return whole(memory.rebuild(feature))


@router.get("/proof", responses=problems(404, 503), summary="Is what is held what the journal says?")
def prove(request: Request, memory: Memory, feature: Feature) -> values.MemoryProof:
    """Compare the state in memory and the documents of the index with the journal as read anew, id by id."""
    return memory.prove(feature)


@router.delete(
    "/orphans",
    status_code=202,
    responses=problems(503, 507),
    summary="Remove collections that no journal stands behind",
)
def drop_orphans(request: Request, memory: OperatedMemory) -> Page[str]:
    """Empty the orphans of this project alone, and return their names; `status` lists them before."""
    return whole(memory.drop_orphans())


@router.get(
    "/export",
    response_class=JsonLines,
    responses={
        200: {"content": {LINES: {"schema": {"type": "string"}}}, "description": "The journal's entries"},
        **problems(503),
    },
    summary="Everything in a feature's journal",
)
def export(memory: Memory, feature: Feature) -> JsonLines:
    """Return each entry of the journal as a line of JSON, the oldest first."""
    lines = memory.export(feature)
    return JsonLines(line + "\n" for line in lines)
