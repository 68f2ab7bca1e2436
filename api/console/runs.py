"""The list of runs."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, get_args

from fastapi import Response
from fastapi.responses import RedirectResponse

from sluice.api.access import CONSOLE
from sluice.api.console.frame import Operating, Visit, Visiting, pages
from sluice.api.console.hub import streamed
from sluice.contracts.api import RunKind
from sluice.contracts.errors import InvalidInput
from sluice.workers.service.runs import TRACE_ID, RunSummary, run_of_trace

runs = pages()
PART = 50
MOST_NEWER = 100
"""Newer runs are counted up to here."""
FRESH_SECONDS = 2.0
"""How old a list of the newest runs may be that several viewers share."""
TABS: dict[str, dict[str, Any]] = {
    "open": {"unfinished": True},
    "retrying": {"retrying": True},
    "failed": {"status": "failed"},
    "all": {},
}
"""The filters of each tab."""
FILTERS = ("kind", "corpus", "owner", "q")
TO_CHOOSE = ("", *get_args(RunKind))
RUN_ID = re.compile(r"run_[0-9a-f]{28}")
_newest: dict[str, tuple[float, list[str]]] = {}


@runs.get("/runs")
def recent(visit: Visiting, tab: str = "all", q: str = "", before: str | None = None) -> Response:
    """Show the latest runs of a tab that match the filters. The whole id of a run or a trace leads to its run."""
    instance, wanted = visit.instance, q.strip()
    if RUN_ID.fullmatch(wanted):
        return RedirectResponse(f"{CONSOLE}/runs/{wanted}", 303)
    if TRACE_ID.fullmatch(wanted) and visit.is_whole_operator:
        return RedirectResponse(f"{CONSOLE}/runs/{run_of_trace(instance.context, wanted)}", 303)
    chosen = {name: visit.request.query_params.get(name, "").strip() for name in FILTERS}
    found, problem = list[RunSummary](), ""
    try:
        found = listed(visit, tab, chosen, PART + 1, before)
    except InvalidInput as error:
        if error.field != "q":
            raise
        problem = f"{error.problem}: {error.remedy}"
    shown = found[:PART]
    return visit.show(
        "runs.html",
        runs=shown,
        before=shown[-1].run_id if found[PART:] else None,
        tab=tab,
        tabs=tuple(TABS),
        chosen=chosen,
        problem=problem,
        kinds=TO_CHOOSE,
        names=visit.names(),
        following={"tab": tab, "after": shown[0].run_id, **chosen} if shown and before is None else None,
        newer=0,
    )


def listed(
    visit: Visit, tab: str, chosen: Mapping[str, str], limit: int, before: str | None = None
) -> list[RunSummary]:
    """Return the latest runs of a tab. Raises `InvalidInput` for a tab or a kind that there is not, and for words that
    cannot be looked for."""
    if tab not in TABS:
        raise InvalidInput("tab", f"there is no tab {tab[:50]!r}", f"one of {', '.join(TABS)}")
    if chosen["kind"] not in TO_CHOOSE:
        raise InvalidInput("kind", f"there is no kind {chosen['kind'][:50]!r}", f"one of {', '.join(TO_CHOOSE[1:])}")
    given = {name: chosen[name] or None for name in ("kind", "corpus", "owner")}
    return visit.instance.runs.recent(visit.caller, limit, before, text=chosen["q"] or None, **given, **TABS[tab])


@streamed("runs", "newer.html", needs=lambda visit, chosen: _newest_ids(visit, chosen), seconds=FRESH_SECONDS)
def newer(visit: Visit, parameters: Mapping[str, str]) -> Mapping[str, Any]:
    """Count the runs that are newer than the first one of a list."""
    after = parameters.get("after", "")
    chosen = {name: value for name, value in parameters.items() if name != "after" and value}
    count = sum(run_id > after for run_id in _newest_ids(visit, parameters))
    return {"newer": count, "chosen": chosen, "most": MOST_NEWER}


def _newest_ids(visit: Visit, parameters: Mapping[str, str]) -> list[str]:
    """Return the ids of the newest runs of a list, which is read once for all who look at it."""
    chosen = {name: parameters.get(name, "") for name in FILTERS}
    tab, corpora = parameters.get("tab", "all"), visit.caller.corpora
    key = f"{visit.instance.settings.data_dir} {tab} {sorted(chosen.items())} {corpora and sorted(corpora)}"
    at, ids = _newest.get(key, (float("-inf"), list[str]()))
    if time.monotonic() - at > FRESH_SECONDS - 0.5:
        ids = [one.run_id for one in listed(visit, tab, chosen, MOST_NEWER)]
        if len(_newest) > MOST_NEWER:
            _newest.clear()
        _newest[key] = time.monotonic(), ids
    return ids


@runs.post("/runs/cancel")
def cancel_chosen(visit: Operating) -> Response:
    """Cancel the runs that were chosen in the list."""
    chosen = visit.form.getlist("run")
    if not 1 <= len(chosen) <= PART:
        raise InvalidInput("run", "choose at least one run to cancel")
    for run_id in chosen:
        visit.instance.runs.one(run_id, visit.caller)
    visit.record("cancel", *(f"run:{run_id}" for run_id in chosen))
    ended = sum(not visit.instance.service.cancel(run_id) for run_id in chosen)
    told = f"{len(chosen) - ended} cancelled" + (f", {ended} had ended before" if ended else "")
    return visit.done(f"{told}. What was indexed stays indexed.")


ROUTERS = (runs,)
