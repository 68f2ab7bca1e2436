"""`ask`, by the gate, and `query`, straight from the index; then `show`, `prompts` and `feedback`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sluice.cli.agent.answers import path_in_words, print_paths, print_prompt, print_trust, shown_run
from sluice.cli.command import (
    FeedbackOutcome,
    PassageReason,
    Plan,
    Shown,
    SignalName,
    Strategy,
    alone,
    over_http,
    print_rows,
    table,
)
from sluice.cli.connection import follow, given, wrong
from sluice.cli.output import console, error_console, marked, plain_text, say
from sluice_client import SluiceClient, models
from sluice_client.errors import Conflict, InvalidInput, NotFound

GRACE_SECONDS = 15.0
"""Time that a run may take beyond its deadline to hand over its answer."""
_LINES = re.compile(r"([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?")


@over_http
def ask(
    client: SluiceClient,
    question: str,
    corpus: str = "default",
    profile: str = "default",
    plan: Plan | None = None,
    rag: bool | None = None,
    seed: list[str] | None = None,
    deadline: float = 60.0,
    confidence_floor: float | None = None,
    prompt: str | None = None,
    why: bool = False,
    as_json: bool = False,
) -> Shown:
    """Ask the gate, and wait for the cited answer."""
    asked = given(plan=choose_plan(plan, rag=rag), confidence_floor=confidence_floor, prompt=prompt)
    asked |= {"profile": profile, "seeds": seed or [], "deadline_seconds": deadline}
    run_id = client.gate(question, corpus, wait=False, **asked).run_id
    with error_console.status(f"run {run_id}") as status:
        for event in follow(client, run_id, deadline + GRACE_SECONDS):
            if not as_json:
                status.update(f"{event.kind} · run {run_id}")
    return shown_run(client.run(run_id), why=why, show_prompt=prompt is not None)


def choose_plan(plan: Plan | None, *, rag: bool | None) -> Plan | None:
    """Return the plan for the request: `skip` without retrieval, else the named plan; None lets the gate decide. Raises
    `InvalidInput` if the two contradict each other."""
    if rag is None or plan is None:
        return "skip" if rag is False else plan
    if rag is (plan == "skip"):
        raise wrong("rag", f"contradicts --plan {plan}", "name one of the two")
    return plan


@over_http
def query(
    client: SluiceClient,
    text: str,
    corpus: str = "default",
    top_k: int = 8,
    strategy: Strategy = "hybrid",
    trust_threshold: float = 0.0,
    max_tokens: int | None = None,
    diversity: float | None = None,
    neighbours: int = 0,
    max_per_domain: int | None = None,
    duplicate_threshold: float | None = None,
    prompt: str | None = None,
    rerank: bool = True,
    confidence_floor: float | None = None,
    why: bool = False,
) -> Shown:
    """Search the corpus as it is, without the gate."""
    limits = given(max_tokens=max_tokens, diversity=diversity, max_per_domain=max_per_domain, prompt=prompt)
    limits |= given(duplicate_threshold=duplicate_threshold, confidence_floor=confidence_floor)
    how = {"strategy": strategy, "trust_threshold": trust_threshold, "neighbours": neighbours, "rerank": rerank}
    found = client.query(text, corpus, top_k=top_k, **how, **limits)

    def draw() -> None:
        if found.prompt:
            print_prompt(found.prompt)
            return
        _print_chunks(found)
        if why:
            print_trust(found.metadata.trust_scores, found.metadata.checks)

    return Shown(found, draw)


def _print_chunks(found: models.Retrieval) -> None:
    confidence = ("confidence", lambda one: "" if one.confidence is None else f"{one.confidence:.0%}")
    place = ("source", lambda one: f"{_place(one)}:{one.start_line}-{one.end_line}")
    text = ("text", lambda one: " ".join(one.text.split())[:120])
    title = f"{found.generation or 'no generation yet'} · {found.metadata.duration_ms:.1f} ms"
    print_rows(title, found.chunks, "rank", ("score", "{.fused_score:.4f}"), confidence, place, text)
    print_paths((one.rank, path_in_words(one.graph_path) if one.graph_path else None) for one in found.chunks)
    if found.metadata.graph and found.metadata.graph.abstained:
        console.print(f"[dim]graph: {marked(found.metadata.graph.abstained)}[/]")


def _place(found: Any) -> str:
    return str(found.url or found.file_path or found.document_id)


@over_http
def show(client: SluiceClient, document: str, corpus: str = "default", lines: str | None = None) -> Shown:
    """Show the text of a document, by its id, URL or path, with the lines that citations name."""
    named = _LINES.fullmatch("1" if lines is None else lines)
    if named is None:
        raise wrong("lines", f"{lines!r} is no line and no range", "such as 12 or 12-30")
    last = None if lines is None else int(named[2] or named[1])
    found = client.document_text(document, corpus, int(named[1]), last)

    def draw() -> None:
        console.print(marked(_place(found)), style="dim")
        width = len(str(found.end_line))
        for number, line in enumerate(found.text.split("\n"), start=found.start_line):
            say(f"{number:>{width}}  {line}")
        for one in found.left_out or ():
            console.print(f"lines {one.start_line}-{one.end_line} are in quarantine", style="yellow")

    return Shown(found, draw)


@alone
def prompts(name: str | None = None) -> Shown:
    """Prompt templates: what `sluice ask --prompt` makes of an answer."""
    from sluice.trust.prompts.build import template_named, templates

    if name is None:
        named = templates().items()
        found = [{**one.model_dump(include={"name", "version", "summary"}), "full_name": full} for full, one in named]
        return table("prompts", found, "name=full_name summary")
    template = template_named(name, "name")
    messages = [("system", template.system)]
    for example in template.examples:
        messages += [("user", example.question), ("assistant", example.answer)]

    def draw() -> None:
        console.print(f"[bold]{template.full_name}[/] · {template.summary}")
        for role, content in messages:  # `{nonce}` is drawn for each prompt
            console.print(f"\n[bold]{role}[/]")
            console.print(plain_text(content), markup=False)

    return Shown(template, draw)


@over_http
def feedback(
    client: SluiceClient,
    run_id: str | None = None,
    outcome: FeedbackOutcome = "unknown",
    rating: float | None = None,
    signal: SignalName = "task_satisfaction",
    used: list[str] | None = None,
    bad: list[int] | None = None,
    reason: PassageReason = "wrong",
    note: str = "",
    response: Path | None = None,
    file: Path | None = None,
) -> Shown:
    """Say what became of an answer: one run's, or in bulk from a file.

    It counts once for each run and signal, and once for each passage called bad; the same again changes nothing.
    """
    if (run_id is None) == (file is None):
        raise wrong("run_id", "give either a run or --file", "sluice feedback RUN --outcome success")
    if file is not None:
        return _take(client, _read("file", file, errors="replace").splitlines())
    said = given(rating=rating, response=_read("response", response) if response else None)
    said |= {"outcome": outcome, "signal": signal, "chunk_ids_used": used or [], "note": "" if bad else note}
    said |= given(passages=[{"citation": one, "reason": reason, "note": note} for one in bad] if bad else None)
    is_new = _give(client, run_id=run_id, **said)
    value = {"run_id": run_id, "status": "accepted" if is_new else "repeated"}
    return Shown(value, f"{'recorded' if is_new else 'was recorded before'}: {run_id}")


def _take(client: SluiceClient, lines: list[str]) -> Shown:
    """Submit each line by itself, skipping empty ones. A line counts whole or not at all; a refused line stops none. An
    error of the instance ends it. The file can then be submitted again: lines counted before come out as repeated."""
    taken, refused = {"accepted": 0, "repeated": 0}, []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            taken["accepted" if _give(client, **_fields(line)) else "repeated"] += 1
        except (NotFound, InvalidInput, Conflict) as error:
            refused.append({"line": number, "error": str(error)})
    told = [f"line {one['line']}: {one['error']}" for one in refused]
    counts = f"{taken['accepted']} accepted, {taken['repeated']} repeated, {len(refused)} refused"
    return Shown({**taken, "refused": refused}, "\n".join([*told, counts]), exit_code=int(bool(refused)))


def _give(client: SluiceClient, **fields: Any) -> bool:
    """Submit one piece of feedback; return whether it is new."""
    return client.feedback(**fields).get("counted") != "before"


def _fields(line: str) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(line)
        if not isinstance(fields.get("run_id"), str):
            raise wrong("run_id", "Field required")
    except (ValueError, AttributeError) as error:
        raise wrong("body", f"no JSON object: {error}") from error
    return fields


def _read(option: str, path: Path, errors: str = "strict") -> str:
    try:
        return path.read_text(encoding="utf-8", errors=errors)
    except (OSError, UnicodeDecodeError) as error:
        raise wrong(option, f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
