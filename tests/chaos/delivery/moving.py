"""A corpus exported, imported, amended and deleted under SIGKILL: equal once imported, changed once, gone once deleted.

A process dies at each of the failpoints of `DEATHS` while the step goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.chaos.delivery.erasing import QUIET_SECONDS, asked
from tests.chaos.delivery.failpoints import Cell
from tests.chaos.delivery.instance import BLAMELESS, ChaosInstance
from tests.chaos.delivery.truth import read_truth
from tests.chaos.delivery.verdict import await_quiet
from tests.chaos.delivery.witness import facts
from tests.chaos.report import Result

DEATHS: dict[str, tuple[Cell, ...]] = {
    "export": tuple(Cell(f"export.{side}", "index", "kill") for side in ("before", "after")),
    "import": (Cell("handler.after", "index", "kill"), Cell("journal_append.after", "index", "kill")),
    "amend": (Cell("journal_append.before", "index", "kill"), Cell("settle.before", "index", "kill")),
    "delete": (
        Cell("forget.after", "api", "kill"),
        Cell("removal.after", "index", "kill"),
        Cell("erase.before", "index", "kill"),
    ),
}
DOCUMENTS = 12


def moving(folder: Path, seed: int) -> list[Result]:
    """The story, on an instance of its own."""
    with ChaosInstance(folder, BLAMELESS) as instance:
        problems = story(instance, f"moved-{seed}")
    deaths = sum(map(len, DEATHS.values()))
    facts_ = {"deaths": deaths, "problems": len(problems)}
    told = "equal once imported, changed once, gone once deleted"
    return [
        Result("export, import, amend, delete × kill", f"{deaths} deaths", told, not problems, facts_, tuple(problems))
    ]


def story(instance: ChaosInstance, name: str) -> list[str]:
    """What is wrong after a corpus was moved, changed and deleted while these deaths happened."""
    first, second = f"{name}-first", f"{name}-second"
    problems: list[str] = []

    def step(deaths: str, method: str, path: str, also: tuple[int, ...] = (), **sent: Any) -> Any:
        since = instance.witness_path.stat().st_size
        for cell in DEATHS.get(deaths, ()):
            instance.arm(cell)
        response = asked(instance, method, path, also=also, **sent)
        if not await_quiet(instance.ledger_url, QUIET_SECONDS):
            problems.append(f"{deaths} is not over")
        fired = {fact.more["cell"] for fact in facts(instance.witness_path, "fired", after_byte=since)}
        problems.extend(f"{cell} did not happen" for cell in DEATHS.get(deaths, ()) if str(cell) not in fired)
        return response.json()

    documents = [{"id": f"{name}-{number}", "text": f"Heath {number} of {name} rests."} for number in range(DOCUMENTS)]
    step("add", "POST", "/v1/documents", body={"corpus": first, "create_corpus": True, "documents": documents})
    artefact = step("export", "POST", f"/v1/corpora/{first}/export")["links"]["artefact"].rpartition("/")[2]
    asked(instance, "POST", "/v1/corpora", body={"name": second}, also=(409,))
    step("import", "POST", f"/v1/corpora/{second}/import", body={"artefact_id": artefact})
    held = read_truth(instance.ledger_url, instance.data_dir / "index", []).corpora
    if held[first].documents != held[second].documents or len(held[second].documents) != DOCUMENTS:
        problems.append(f"of {DOCUMENTS} documents {len(held[second].documents)} came, or others")
    amended = {"corpus": second}
    path = f"/v1/documents/{name}-3"
    step("amend", "PATCH", path, parameters=amended, body={"metadata": {"team": "moors"}})
    if asked(instance, "GET", path, amended).json()["metadata"] != {"team": "moors"}:
        problems.append("the change is not there")
    step("delete", "DELETE", f"/v1/corpora/{second}", also=(404,))
    if asked(instance, "GET", f"/v1/corpora/{second}", also=(404,)).status_code != 404:
        problems.append("the deleted corpus is there")
    left = read_truth(instance.ledger_url, instance.data_dir / "index", []).corpora
    if second in left and left[second].documents:
        problems.append("the deleted corpus holds documents")
    if len(left[first].documents) != DOCUMENTS:
        problems.append("the other corpus lost documents")
    return problems
