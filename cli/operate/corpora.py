"""`sluice corpora`: what each corpus holds and may take in; made, changed, deleted, exported and imported."""

from __future__ import annotations

from pathlib import Path

from sluice.cli.agent.answers import print_run
from sluice.cli.command import Shown, ask_first, chosen, needed, over_http, print_fields, table
from sluice.cli.connection import given, wait_for, wrong
from sluice_client import SluiceClient, models

ARTEFACT = ("art_", "upl_")
WAIT_SECONDS = 3_600.0
"""Seconds that the command waits by default for the run of a whole corpus."""


@over_http
def corpora(
    client: SluiceClient,
    name: str | None = None,
    make: bool = False,
    delete: bool = False,
    description: str | None = None,
    search: bool | None = None,
    crawl: bool | None = None,
    source: list[str] | None = None,
    export_to: Path | None = None,
    import_from: str | None = None,
    timeout: float = (WAIT_SECONDS),
    note: str = "",
    limit: int = 50,
    cursor: str | None = None,
    yes: bool = False,
) -> Shown:
    """Corpora: what each holds and may take in; make, change, export, import or delete one."""
    moved = {"export": export_to is not None, "import": import_from is not None}
    action = chosen(make=make, delete=delete, **moved)
    settings = given(description=description, search=search, crawl=crawl, sources=source or None)
    if name is None and action is None:
        return table("corpora", client.corpora(limit=limit, cursor=cursor), "name documents chunks bytes engine")
    name = needed("NAME", name, action or "change")
    if action == "make":
        return _of(client.create_corpus(name, **settings))
    if action == "delete":
        ask_first(f"Forget every document of corpus {name} ({client.corpus(name).documents}) for good?", yes=yes)
        return _ended(client, client.delete_corpus(name, note), timeout)
    if export_to is not None:
        accepted = client.export_corpus(name)
        shown = _ended(client, accepted, timeout)
        export_to.write_bytes(client.artefact((accepted.links or {})["artefact"].rpartition("/")[2]))
        return shown
    if import_from is not None:
        return _ended(client, client.import_corpus(name, _artefact(client, import_from)), timeout)
    return _of(client.change_corpus(name, **settings) if settings else client.corpus(name))


def _artefact(client: SluiceClient, told: str) -> str:
    """Return the id of an artefact, or of a file that is uploaded as one."""
    path = Path(told)
    if told.startswith(ARTEFACT) and not path.exists():
        return told
    try:
        return client.upload_artefact(path.read_bytes()).id
    except OSError as error:
        raise wrong("import", f"{told} cannot be read: {error.strerror}", "name an exported corpus") from error


def _of(corpus: models.CorpusView) -> Shown:
    return Shown(corpus, lambda: print_fields(corpus, frozenset()))


def _ended(client: SluiceClient, accepted: models.RunAccepted, seconds: float) -> Shown:
    view = wait_for(client, accepted.run_id, seconds)
    return Shown(view, lambda: print_run(view))
