"""Routes for health and metrics, and for operators: stages, crawled hosts, evaluation, flags, steps back, rollouts of
models.

Everybody reads the flags. The rest is for operators of all corpora, as the pipeline and the gate are one for all of
them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from sluice.api.access import AnyCaller, InstanceOperator, Note, Operator, WholeCaller, instance_of
from sluice.api.lists import WrittenMoment, paged, position, whole
from sluice.api.problems import problems
from sluice.api.requests import about_run
from sluice.contracts.api import DefenceView, Health, Page, StageBacklog, StageView
from sluice.contracts.event import Queue
from sluice.contracts.ingest import HostView
from sluice.contracts.learning import control
from sluice.contracts.operations.actions import ActionPage, RecordedAction
from sluice.contracts.operations.crawling import HostState
from sluice.contracts.operations.dead_letters import OperatorAction
from sluice.contracts.operations.overview import Overview, Scaled, ScaleRequest, SettingView, StageFigures
from sluice.otel.metrics import negotiate_metrics
from sluice.workers.service.instance import MOST_DAYS, NEEDED, check_health
from sluice.workers.service.learning.control import AbReport, lift_defence, list_defences, pin_defence
from sluice.workers.service.learning.evaluation import By, Evaluation, PlanHour, Rebuilt, evaluate, plans_by_hour
from sluice.workers.service.operate.overview import look, scale, stage_figures
from sluice.workers.service.operate.settings import list_settings
from sluice.workers.service.runs import GateProfile, list_profiles

health = APIRouter(tags=["operations"])
overview = APIRouter(prefix="/v1/overview", tags=["operations"])
stages = APIRouter(prefix="/v1/stages", tags=["stages"])
crawled = APIRouter(prefix="/v1/hosts", tags=["hosts"])
flags = APIRouter(prefix="/v1/flags", tags=["flags"])
outcomes = APIRouter(prefix="/v1/evaluation", tags=["evaluation"])
defences = APIRouter(prefix="/v1/defences", tags=["defences"])
profiles = APIRouter(prefix="/v1/profiles", tags=["profiles"])
rollouts = APIRouter(prefix="/v1/rollouts", tags=["rollouts"])
audit = APIRouter(prefix="/v1/actions", tags=["actions"])
config = APIRouter(prefix="/v1/config", tags=["operations"])
ROUTERS = (audit, config, defences, flags, outcomes, profiles, rollouts, stages, crawled, overview, health)

Actions = Annotated[ActionPage, Query()]
Host = Annotated[str, Path(max_length=253, description="As `example.org`")]
HEALTH_RESPONSES: dict[int | str, dict[str, Any]] = {
    **problems(),
    503: {"model": Health, "description": "A part is not well"},
}


@health.get("/healthz", responses=HEALTH_RESPONSES, summary="Is it well?")
def healthz(request: Request, response: Response, caller: WholeCaller) -> Health:
    """Check broker, ledger, disk, workers, embedder, snapshots and graphs. Details only for a caller of all corpora."""
    health = check_health(instance_of(request).context)
    response.status_code = 200 if health.ok else 503
    return health if caller else health.without_facts()


@health.get("/livez", summary="Does the process answer?")
async def livez() -> dict[str, bool]:
    """Return at once, whatever the state of the other parts."""
    return {"ok": True}


@health.get("/readyz", responses=HEALTH_RESPONSES, summary="Can it take requests?")
def readyz(request: Request, response: Response) -> Health:
    """Check broker, ledger and disk alone: a worker that is missing makes answers late, and no request fail."""
    health = check_health(instance_of(request).context, NEEDED)
    response.status_code = 200 if health.ok else 503
    return health.without_facts()


@health.get(
    "/metrics",
    responses={
        200: {
            "content": {kind: {"schema": {"type": "string"}} for kind in ("text/plain", "application/openmetrics-text")}
        },
        **problems(),
    },
    response_class=Response,
    summary="Prometheus metrics of all processes",
)
def metrics(request: Request, _caller: InstanceOperator) -> Response:
    """Return Prometheus' text format 0.0.4, or OpenMetrics with exemplars (trace ids) if `Accept` names it."""
    shown, content_type = negotiate_metrics(request.headers.get("accept", ""))
    return Response(shown, media_type=content_type)


@overview.get("", name="overview", responses=problems(503), summary="An instance at a glance")
def glance(request: Request, _operator: InstanceOperator) -> Overview:
    """Return stages with their pools and their last hour, health, dead letters, spending and the oldest open runs."""
    return look(instance_of(request).context)


@stages.get("", name="every", responses=problems(503), summary="Every stage: what waits, and whether it is paused")
def every_stage(request: Request, _operator: InstanceOperator) -> Page[StageView]:
    """Return the stages in the order of the pipeline."""
    return whole(instance_of(request).context.ledger.stages())


@stages.get("/figures", responses=problems(503), summary="What each stage did lately")
def figures(
    request: Request,
    _operator: InstanceOperator,
    hours: Annotated[int, Query(ge=1, le=720, description="How long")] = 1,
) -> Page[StageFigures]:
    """Return throughput, waits and failures: by the minute up to two hours, by the quarter up to a day, else by the
    hour."""
    return whole(stage_figures(instance_of(request).context, hours))


@stages.get("/{stage}/backlog", responses=problems(503), summary="The work of a stage, in numbers")
def backlog(request: Request, stage: Queue, _caller: AnyCaller) -> StageBacklog:
    """Count the events of a stage that need a worker, for what starts and stops workers. Any key may read it."""
    return instance_of(request).context.ledger.backlog(stage)


@stages.post("/{stage}/pause", responses=problems(503, 507), summary="Stop handing out work of a stage")
def pause(
    request: Request,
    stage: Queue,
    operator: InstanceOperator,
    why: Annotated[str, Query(min_length=1, max_length=1_000)],
) -> Page[StageView]:
    """Pause a stage: its events stay ready until it is resumed; those in hand finish. Recorded with who and when."""
    ledger = instance_of(request).context.ledger
    ledger.pause(stage, why, operator=operator.owner)
    return whole(ledger.stages())


@stages.post("/{stage}/resume", responses=problems(503, 507), summary="Go on with a stage")
def resume(request: Request, stage: Queue, operator: InstanceOperator) -> Page[StageView]:
    """End a pause, the circuit breaker's too. Recorded with who and when."""
    ledger = instance_of(request).context.ledger
    ledger.resume(stage, operator=operator.owner)
    return whole(ledger.stages())


@stages.post("/{stage}/scale", responses=problems(503, 507), summary="Resize the pool of a stage while it runs")
def resize(request: Request, stage: Queue, body: ScaleRequest, operator: InstanceOperator) -> Scaled:
    """Record how many events of the stage to handle at once; it outlives a restart. Recorded with who, when and why."""
    return scale(instance_of(request).context, stage, body, operator.owner)


@crawled.get("", name="every", responses=problems(503), summary="What the crawl did to each host")
def hosts(
    request: Request,
    _operator: InstanceOperator,
    days: Annotated[int, Query(ge=1, le=MOST_DAYS)] = 1,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Page[HostView]:
    """Return requests, success, refusals, bytes and render share by host, busiest first; UTC days, today included."""
    since = (datetime.now(UTC) - timedelta(days=days - 1)).date()
    return whole(instance_of(request).context.host_stats.top(limit, since))


@crawled.get(
    "/{host}", name="one", responses=problems(503), summary="What the crawl did to one host, and how it stands"
)
def host(
    request: Request,
    _operator: InstanceOperator,
    host: Host,
    days: Annotated[int, Query(ge=1, le=MOST_DAYS)] = 1,
    url: Annotated[str | None, Query(max_length=4_096, description="An address of it, to judge by robots.txt")] = None,
) -> HostState:
    """Return its counts, its next turn, and its robots.txt as it is kept, with the rule that decides about `url`."""
    return instance_of(request).crawling.host(host, days, url)


@crawled.post("/{host}/rest", responses=problems(503, 507), summary="Send no request to a host for a while")
def rest(
    request: Request,
    operator: InstanceOperator,
    host: Host,
    seconds: Annotated[float, Query(ge=0, le=604_800, description="How long; 0: no longer")],
    note: Note = "",
) -> HostState:
    """Let no request begin; pages of it wait, or are left out where their runs end before. Recorded with who, when and
    why."""
    return instance_of(request).crawling.rest(host, seconds, operator.owner, note)


@audit.get("", name="some", responses=problems(503), summary="What operators did, the latest first")
def actions(request: Request, _operator: InstanceOperator, wanted: Actions) -> Page[RecordedAction]:
    """Return the actions that meet every given filter, with who did them, when and why."""
    ledger = instance_of(request).context.ledger
    return paged(request, wanted.limit, lambda *part: ledger.console.actions(wanted.part(*part)), position)


@config.get("", name="every", responses=problems(503), summary="Every setting, and where its value comes from")
def settings(request: Request, _operator: InstanceOperator) -> Page[SettingView]:
    """Return the settings of the process that answers; keys and passwords as `set`."""
    return whole(list_settings(instance_of(request).settings))


SHOWN = timedelta(days=7)
"""Period that is evaluated if the request names none."""


@flags.get("", responses=problems(503), summary="Every flag, and who decides it")
def every(request: Request, caller: AnyCaller) -> Page[control.FlagState]:
    """Return every flag as this server sees it: kill switch before policy, environment, stored value, default."""
    return whole(instance_of(request).flags.states(caller))


@flags.get("/{name}/history", responses=problems(404, 503), summary="What operators did to a flag")
def history(request: Request, name: str, operator: Operator) -> Page[OperatorAction]:
    """Return who did what, when and why, the first one first."""
    return whole(instance_of(request).flags.history(name))


@flags.put("/{name}", responses=problems(404, 409, 503), summary="Switch a flag on or off")
def put(request: Request, name: str, body: control.FlagRequest, operator: Operator) -> control.FlagResult:
    """Change a flag; takes effect within a second, everywhere. Off for search or crawl cancels what waits for it."""
    return about_run(request, instance_of(request).flags.change(name, body.action, operator, body.note, body.share))


@flags.delete("/{name}", responses=problems(404, 503), summary="Take back what is stored of a flag")
def reset(request: Request, name: str, operator: Operator, note: Note = "") -> control.FlagResult:
    """Remove the flag's kill switch and stored value: policy, environment or default decide then."""
    return about_run(request, instance_of(request).flags.change(name, "reset", operator, note))


@outcomes.get(
    "", name="one", responses=problems(503), summary="How the runs did: satisfaction, cost, latency, freshness"
)
def evaluation(
    request: Request,
    _operator: InstanceOperator,
    since: Annotated[WrittenMoment | None, Query(description="Decided then or later; default: 7 days ago")] = None,
    by: Annotated[By, Query(description="What a row is of")] = "plan",
    profile: Annotated[str | None, Query(max_length=32, description="Of one profile alone")] = None,
) -> Evaluation:
    """Return counts, satisfaction, freshness gain, cost per successful task, latency and more, with 95 % intervals."""
    now = datetime.now(UTC)
    begin = now - SHOWN if since is None else since
    return evaluate(instance_of(request).context.ledger, begin, now, by, profile)


@outcomes.get("/hours", responses=problems(503), summary="The decisions of each hour, by plan")
def hours(
    request: Request,
    _operator: InstanceOperator,
    hours: Annotated[int, Query(ge=1, le=48, description="How many")] = 24,
) -> Page[PlanHour]:
    """Return the last hours, the present one included, the oldest first."""
    return whole(plans_by_hour(instance_of(request).context.ledger, hours))


@outcomes.post("/rebuild", responses=problems(503, 507), summary="Make what is known of each run again")
def rebuild(request: Request, _operator: InstanceOperator) -> Rebuilt:
    """Rebuild outcomes and marks on passages from events: minutes where there are many. Runs go on meanwhile."""
    instance_of(request).context.ledger.marks.rebuild()
    return Rebuilt(runs=instance_of(request).context.ledger.outcomes.rebuild())


@profiles.get("", name="every", responses=problems(503), summary="The profiles of the gate")
def every_profile(request: Request, _caller: AnyCaller) -> Page[GateProfile]:
    """Return name, version, hash and thresholds of each profile."""
    return whole(list_profiles(instance_of(request).context))


@defences.get(
    "", name="every", responses=problems(503), summary="Every defence of the gate, and whether it has stepped back"
)
def every_defence(request: Request, _operator: InstanceOperator) -> Page[DefenceView]:
    """Return them by name and profile, with what their latest windows showed."""
    return whole(list_defences(instance_of(request).context.ledger))


@defences.delete("/{name}", responses=problems(404, 409, 503, 507), summary="End a step back before it heals")
def lift(
    request: Request,
    name: control.DefenceName,
    operator: InstanceOperator,
    profile: Annotated[str | None, Query(max_length=32)] = None,
    corpus: Annotated[str | None, Query(max_length=63)] = None,
    note: Annotated[str, Query(max_length=1_000)] = "",
) -> Page[DefenceView]:
    """End the steps back in a profile and a corpus, or all. Their windows begin anew. Recorded with who, when, why."""
    return whole(lift_defence(instance_of(request).context, name, operator.owner, profile, note, corpus))


@defences.put("/{name}", responses=problems(409, 503, 507), summary="Hold a defence on or off")
def pin(
    request: Request, name: control.DefenceName, operator: InstanceOperator, body: control.DefencePin
) -> Page[DefenceView]:
    """Hold a defence for a profile, a corpus or both, whatever the outcomes. Recorded with who, when and why."""
    return whole(pin_defence(instance_of(request).context, name, body, operator.owner))


@rollouts.get("", responses=problems(503), summary="Every model that was tried, the active one first")
def some(request: Request, operator: InstanceOperator) -> Page[control.Rollout]:
    """Return the rollout of each model, with every step."""
    return whole(instance_of(request).rollouts.all())


@rollouts.post("", responses=problems(404, 409, 503), summary="Try a model, promote it, or end its part")
def apply(request: Request, operator: InstanceOperator, body: control.RolloutRequest) -> control.Rollout:
    """Change a model's part from the next decision on; recorded with who, when and why."""
    return instance_of(request).rollouts.apply(body, operator.owner)


@rollouts.get("/{version}/report", responses=problems(404, 503), summary="The A/B report on a model")
def report(request: Request, operator: InstanceOperator, version: str) -> AbReport:
    """Compare the arms since the model's trial began, and list where its plans differ from those of the weights."""
    return instance_of(request).rollouts.report(version)
