"""`sluice memory rebuild`: the index from the journals, and the proof that it is what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.memory.opened import Folder, Local, Project, opened
from sluice.cli.output import AsJson, console, print_json, print_table
from sluice.contracts.errors import Unavailable
from sluice.contracts.memory.api import MemoryProof

if TYPE_CHECKING:
    from sluice.contracts.memory.port import MemoryPort


def rebuild(
    feature: Annotated[str | None, typer.Option("--feature", "-f", help="Of this feature alone; else of all.")] = None,
    project: Project = ".",
    folder: Folder = None,
    local: Local = None,
    proven: Annotated[bool, typer.Option("--prove", help="Compare journals, memory and index, id by id.")] = False,
    orphans: Annotated[
        bool, typer.Option("--drop-orphans", help="Remove collections of this project that have no journal.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the instance's runs.")] = 600.0,
    as_json: AsJson = False,
) -> None:
    """Bring the index up to what the journals say. With `--prove`, exit code 1 where the two differ."""
    with opened(project, folder, local, as_json=as_json) as memory:
        if orphans:
            memory.drop_orphans()
        runs = [one.run_id for one in memory.rebuild(feature)]
        if runs:
            _wait(memory, runs, timeout)
        proofs = [memory.prove(one) for one in ([feature] if feature else memory.features())] if proven else []
        if as_json:
            print_json({"runs": runs, "proofs": [{**one.model_dump(), "is_equal": one.is_equal} for one in proofs]})
        elif proven:
            _print_proofs(proofs)
        else:
            console.print(f"the index has what the journals say ({len(runs)} runs)", highlight=False)
    if not all(one.is_equal for one in proofs):
        raise typer.Exit(1)


def _wait(memory: MemoryPort, runs: list[str], timeout_seconds: float) -> None:
    from sluice.cli.connection import wait_for
    from sluice.cli.memory.instance_memory import InstanceMemory

    if not isinstance(memory, InstanceMemory):
        raise Unavailable(f"{len(runs)} runs wait for the instance's workers: start it with `sluice up`")
    for run_id in runs:
        wait_for(memory.client, run_id, timeout_seconds)


def _print_proofs(proofs: list[MemoryProof]) -> None:
    rows = [
        (one.feature, one.entries, one.documents, one.indexed, one.withheld, _verdict(one), one.state_sha256[:16])
        for one in proofs
    ]
    print_table("proof", ("feature", "entries", "documents", "indexed", "withheld", "is", "state"), rows)


def _verdict(proof: MemoryProof) -> str:
    if proof.is_equal:
        return "equal"
    told = (*proof.differences, *proof.problems)
    return f"{len(proof.missing)} missing, {len(proof.surplus)} too much" + "".join(f"; {one}" for one in told)
