"""What a check found, and how it is shown: a table for the terminal, and `docs/reliability.md` around the same one."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

_PROMISES = """# Reliability

Sluice promises that an accepted request is carried out, whatever dies on the way, and that nothing of it is recorded
twice. The transport is at-least-once; the ledger makes the effect happen once
([decision 3](decisions/0003-ledger-durability.md)). This page says how that is shown.

## What counts

A handler may start twice, and even end twice. What is recorded is what counts.

- **Lost** is an accepted run that does not finish, that ends with a dead letter, or (of a question) without its answer;
  a document of one that cannot be searched; an event that stays open when nothing is left that would handle it.
- **Doubled** is an event that was settled twice, two events that one cause emitted for the same thing, a run with two
  answers or two ends, a chunk that stands twice in the index, a document version that stands twice in the journal, a
  reservation that is never given back.

`tests/chaos/delivery/verdict.py` has the definitions as code. It reads the ledger's rows, the journals and the generations past
the product's own queries, and a witness: a file to which the processes under test append what they do, one line for
each claim, start, effect and settling, written by one `write(2)`.

## How it is shown

`make chaos` runs every family of `tests/chaos/`, `make test-all` their short forms, `make test` a smoke of each.
`python -m tests.chaos.FAMILY --only NAME --seed N` runs one check; kill plans, broker faults and garbage are drawn
from the seed, so a plan that failed can be run again.

The product has no hooks for this. A launcher of the suite imports the product, wraps named functions (`SEAMS` in
`tests/chaos/delivery/failpoints.py`) and then runs the ordinary command under the product's own supervisor, so that what
restarts, hands back, reconciles and watches is what runs elsewhere too.

- **Failpoints.** Before and after: accepting, claiming, the handler, settling, publishing, acknowledging, the
  reconciler's tick, the journal's append and its fsync, the renaming of a generation, the swap of its pointer. Each of
  them, in every kind of process that passes it, with each of: SIGKILL, an exception, a hang, a full disk. Enumerated.
- **Random kills** while work flows. The same plan with the healing switched off has to lose work: otherwise the kills
  would have hit nothing, and zero would mean nothing.
- **The broker**, **garbage**, **poison**, **dead letters** and **traces**: as the table below says.
- **Any order.** A state machine (hypothesis) drives the real ledger, transport model and reconciler through sequences
  that nobody wrote, with a clock of its own and crashes between any two steps, and asks after each whether a law was
  broken. Bugs planted in the product, one at a time, must each be noticed.
- **Memory's journals**: kills before each system call, lost flushes, refusing disks, damaged lines, killed writers.
- **The graph.** Workers of its stage are killed at each step of a change and of a publishing, and the pool of a whole
  instance fifty times while documents come. The graph that grew has the hash of the one that is read anew.
- **Machines.** Two machines with PostgreSQL, Valkey and an S3 server in a third, each in namespaces of its own: a link is
  cut during a claim, the store is away, the index's owner is cut off, a machine burns, the owner burns in mid-publish, both
  burn. They lose their power with the cable pulled, so that no connection is closed.
- **Backups.** A backup and a restoration are killed at each of their steps and at any moment, then begun again.
"""


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table. `problems` say what is wrong when it did not pass."""

    check: str
    done: str
    limit: str
    passed: bool
    figures: dict[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def told(self) -> str:
        """The figures in one line."""
        return ", ".join(f"{name} {_short(value)}" for name, value in self.figures.items())

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return asdict(self)


def print_table(results: Iterable[Result], console: Console | None = None) -> None:
    """Show the results on a terminal, problems below."""
    results, console = list(results), console or Console()
    table = Table("check", "what was done", "found", "limit", "s", "verdict")
    for one in results:
        table.add_row(one.check, one.done, one.told, one.limit, f"{one.seconds:.0f}", "pass" if one.passed else "FAIL")
    console.print(table)
    for one in results:
        for problem in one.problems[:20]:
            console.print(f"{one.check}: {problem}", markup=False, highlight=False, soft_wrap=True)


def document(results: Sequence[Result], command: str) -> str:
    """The text of `docs/reliability.md`: what is promised, how it is shown, and what the last run found."""
    minutes = sum(one.seconds for one in results) / 60
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    failed = sum(not one.passed for one in results)
    verdict = "every check passed" if not failed else f"{failed} of {len(results)} checks failed"
    run = f"`{command}` on {machine}: {verdict}, in {minutes:.0f} minutes."
    return f"{_PROMISES}\n## The last run\n\n{run}\n\n{_table(results)}"


def _table(results: Iterable[Result]) -> str:
    lines = ["| check | what was done | found | limit | seconds | verdict |", "|---|---|---|---|---:|---|"]
    for one in results:
        verdict = "pass" if one.passed else "**fail**"
        lines.append(f"| {one.check} | {one.done} | {one.told} | {one.limit} | {one.seconds:.0f} | {verdict} |")
    return "\n".join(lines) + "\n"


def _short(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
