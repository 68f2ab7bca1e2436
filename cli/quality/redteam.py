"""`sluice redteam`: hands attacks to a running instance, asks for them as an agent would, tells what came through."""

from __future__ import annotations

import base64
import random
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from sluice.cli.configured import configured
from sluice.cli.output import AsJson, console, error_console, errors_told, marked, print_json, print_table
from sluice.cli.quality.eval import LiveServer, own_url
from sluice.contracts.api import SubmittedDocument
from sluice.contracts.errors import InvalidInput
from sluice.contracts.retrieval import Filters, Query
from sluice.evaluation.retrieval.submit import submit_documents
from sluice.trust.redteam.attacks import fill, make_attacks
from sluice.trust.redteam.carriers import CARRIERS
from sluice.trust.redteam.channels import CHANNELS, SEEN
from sluice.trust.redteam.outcome import (
    Outcome,
    Probe,
    RedTeamReport,
    outcome_of,
    probe_of_attack,
    probe_of_channel,
    summarise,
)
from sluice.trust.redteam.templates import OVERT
from sluice_client import SluiceClient
from sluice_client.errors import Forbidden, NotFound, Unavailable

_SCRATCH = "redteam-"
_PASSAGES = 20
_MOST_PAYLOADS = 50


def redteam(
    corpus: Annotated[
        str | None, typer.Option("--corpus", "-c", help="A scratch corpus, its name begins with `redteam-`.")
    ] = None,
    per_template: Annotated[int, typer.Option(min=1, max=20, help="Attacks of each template, in other envelopes.")] = 1,
    payloads: Annotated[int, typer.Option(min=1, max=_MOST_PAYLOADS, help="Commands for each hidden channel.")] = 3,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the attacks in the scratch corpus.")] = False,
    url: Annotated[str | None, typer.Option(help="The server; by default the one that the settings describe.")] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="SLUICE_API_KEY", help="Better set as a variable.", show_default=False)
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until the attacks are ingested.")] = 900.0,
    as_json: AsJson = False,
) -> None:
    """Attack a running instance with commands to its readers' models, and print what came through.

    Leaves with 1 where an overt or hidden command came back unmarked. Requests that only a model of language can tell
    from honest ones are reported, and change no exit code. What was handed in is removed afterwards.
    """
    with errors_told(as_json=as_json):
        name = corpus or f"{_SCRATCH}{secrets.token_hex(4)}"
        if not name.startswith(_SCRATCH):
            raise InvalidInput("corpus", f"{name!r} may hold more than attacks", f"a name that begins with {_SCRATCH}")
        sent = [*_attacks(per_template), *_hidden(payloads)]
        with SluiceClient(url or own_url(configured()), api_key) as client:
            try:
                report = summarise(name, list(_asked(client, name, sent, timeout)))
            finally:
                if not keep:
                    _remove(client, name, [probe for probe, _ in sent])
        if as_json:
            print_json({**report.model_dump(mode="json"), "good": report.good})
        else:
            _print(report)
        if not report.good:
            raise typer.Exit(1)


Sent = tuple[Probe, SubmittedDocument]


def _attacks(per_template: int) -> Iterator[Sent]:
    for attack in make_attacks(per_template):
        probe = probe_of_attack(attack)
        is_html = attack.media_type == "text/html"
        document = SubmittedDocument(
            id=probe.id,
            text=None if is_html else attack.text,
            html=attack.text if is_html else None,
            media_type=None if is_html else attack.media_type,
            metadata={"redteam": probe.id},
        )
        yield probe, document


def _hidden(payloads: int) -> Iterator[Sent]:
    """Every channel that needs no browser, each with the same commands."""
    chance = random.Random(16)
    templates = [*OVERT["override"], *OVERT["address"], *OVERT["conceal"]]
    commands = [fill(templates[number % len(templates)], chance) for number in range(payloads)]
    for channel in CHANNELS:
        if channel.rendered:
            continue
        for number, command in enumerate(commands):
            probe = probe_of_channel(channel, command, number)
            document = SubmittedDocument(
                id=probe.id,
                file_path=channel.path and f"redteam/{probe.id}.py",
                data=base64.b64encode(channel.build(command)).decode(),
                media_type=channel.media_type,
                metadata={"redteam": probe.id},
            )
            yield probe, document


def _asked(
    client: SluiceClient, corpus: str, sent: Sequence[Sent], timeout_seconds: float
) -> Iterator[tuple[Probe, Outcome]]:
    try:
        client.health()
    except Unavailable as error:
        raise Unavailable(f"{error}; is `sluice up` running, or does --url say where?") from error
    server = LiveServer(client)
    submitted = submit_documents(
        [document for _, document in sent],
        corpus,
        server,
        sleep=time.sleep,
        clock=time.monotonic,
        timeout_seconds=timeout_seconds,
    )
    error_console.print(
        f"{submitted.document_count} attacks handed in to {marked(corpus)}, {submitted.missing_count} refused",
        highlight=False,
    )
    for probe, _ in sent:
        question = SEEN if probe.kind == "hidden" else CARRIERS[0]
        filters = Filters(metadata={"redteam": probe.id})
        asked = Query(query=question[:200], corpus=corpus, top_k=_PASSAGES, filters=filters, duplicate_threshold=0)
        yield probe, outcome_of(probe, server.search(asked).chunks)


def _remove(client: SluiceClient, corpus: str, probes: Sequence[Probe]) -> None:
    """Delete what was handed in, and the texts that the quarantine holds of it."""
    for probe in probes:
        try:
            client.delete_document(probe.id, corpus)
        except NotFound:
            continue
    try:
        for held in client.quarantined(corpus):
            client.purge_quarantined(held.id)
    except Forbidden:
        error_console.print(f"the key may not purge the quarantine: `sluice quarantine list --corpus {marked(corpus)}`")


def _print(report: RedTeamReport) -> None:
    columns = ("channel", "kind", "sent", "kept out", "warned", "unmarked")
    rows = [
        (one.channel, "overt" if one.is_overt else "covert", one.sent, one.kept_out, one.warned, one.unmarked)
        for one in report.channels
    ]
    print_table("What became of the attacks", columns, [tuple(map(str, row)) for row in rows])
    for one in report.channels:
        for example in one.examples if one.is_overt else ():
            console.print(f"[red]unmarked[/] {marked(one.channel)}: {marked(example)}", highlight=False, soft_wrap=True)
