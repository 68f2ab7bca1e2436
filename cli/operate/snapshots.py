"""`sluice snapshot` and `sluice rebuild`: generations listed, verified, rolled back, copied, and made anew."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, NamedTuple

import typer
from rich.progress import Progress

from sluice.cli.output import AsJson, Corpus, checked_corpus, console, error_console, marked, print_json, print_table
from sluice.cli.session import session
from sluice.contracts.errors import Corrupted, InvalidSetting, NotFound, Unavailable
from sluice.index.disk.layout import CorpusLayout
from sluice.index.generations.publish import (
    GenerationInfo,
    list_generation_names,
    list_generations,
    read_current_name,
    rollback,
    verify,
)
from sluice.index.remote.object_store import ObjectStore, open_store
from sluice.index.remote.snapshots import Transfer, pull, push
from sluice.workers.context import Context

snapshot = typer.Typer(help="Generations of the index: list, verify, go back, copy.", no_args_is_help=True)

OneCorpus = Annotated[str | None, typer.Option("--corpus", "-c", help="Only this corpus; without it, every one.")]
Store = Annotated[str | None, typer.Option("--store", help="URL; without it, the setting index.object_store_url.")]


class _Verdict(NamedTuple):
    corpus: str
    generation: str
    ok: bool
    problem: str


@snapshot.command("list")
def list_snapshots(corpus: OneCorpus = None, as_json: AsJson = False) -> None:
    """List the generations of each corpus, newest first; the current one is marked."""
    with session(as_json=as_json) as context:
        found = [
            (name, one)
            for name in _corpora(context, corpus)
            for one in list_generations(context.settings.index_root, name)
        ]
        if as_json:
            print_json([{"corpus": name, **_facts(one)} for name, one in found])
            return
        columns = ("corpus", "generation", "", "documents", "chunks", "MB", "offset", "created", "problem")
        print_table("generations", columns, [(name, *_row(one)) for name, one in found])


@snapshot.command("verify")
def verify_snapshots(
    generation: Annotated[str | None, typer.Argument(help="One generation; without it, every one.")] = None,
    corpus: OneCorpus = None,
    as_json: AsJson = False,
) -> None:
    """Hash every file again, and name the first of each generation that is not what was published."""
    with session(as_json=as_json) as context:
        wanted = _wanted(context, corpus, generation)
        verdicts = _verified(context, wanted, quiet=as_json)
        if as_json:
            print_json([verdict._asdict() for verdict in verdicts])
        else:
            rows = [(v.corpus, v.generation, "ok" if v.ok else "corrupted", v.problem) for v in verdicts]
            print_table("verified", ("corpus", "generation", "state", "problem"), rows)
        if not all(verdict.ok for verdict in verdicts):
            raise typer.Exit(1)


@snapshot.command("rollback")
def roll_back(
    generation: Annotated[str | None, typer.Argument(help="Where to; without it, the one before the current.")] = None,
    corpus: Corpus = "default",
    as_json: AsJson = False,
) -> None:
    """Serve an earlier generation, verified first. It holds until new documents are published."""
    with session(as_json=as_json) as context:
        layout = CorpusLayout(context.settings.index_root, _corpora(context, corpus)[0])
        left = read_current_name(layout)
        now = rollback(context.settings.index_root, corpus, generation or _one_before(layout, left))
        if as_json:
            print_json({"corpus": corpus, "left": left, "current": now})
        else:
            console.print(f"{marked(corpus)}: {left} → {now.name}, {now.chunk_count} chunks", highlight=False)


@snapshot.command("push")
def push_snapshot(
    generation: Annotated[str | None, typer.Argument(help="Which; without it, the current one.")] = None,
    corpus: Corpus = "default",
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Copy a generation to the object store and make it the store's current one. Only new files travel."""
    with session(as_json=as_json) as context:
        _corpora(context, corpus)
        moved = push(context.settings.index_root, corpus, _store(context, store), generation)
        _print_transfer("pushed", corpus, moved, as_json=as_json)


@snapshot.command("pull")
def pull_snapshot(
    generation: Annotated[str | None, typer.Argument(help="Which; without it, the store's current one.")] = None,
    corpus: Corpus = "default",
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Load a generation from the object store, verified, and serve it. Only new files travel."""
    with session(as_json=as_json) as context:
        keep = context.settings.index.keep_generations
        moved = pull(context.settings.index_root, checked_corpus(corpus), _store(context, store), generation, keep)
        _print_transfer("pulled", corpus, moved, as_json=as_json)


def _store(context: Context, url: str | None) -> ObjectStore:
    url = url or context.settings.index.object_store_url
    if url is None:
        raise InvalidSetting("index.object_store_url", "not set", "give --store URL, like s3://bucket/prefix")
    return open_store(url, context.settings.object_store)


def _print_transfer(what: str, corpus: str, moved: Transfer, *, as_json: bool) -> None:
    if as_json:
        print_json({"corpus": corpus, **asdict(moved)})
        return
    travelled = f"{moved.files_moved} files, {moved.bytes_moved:,} bytes travelled"
    there = f"{moved.files_present} files, {moved.bytes_present:,} bytes were there already"
    console.print(f"{marked(corpus)}: {what} {moved.generation}: {travelled}; {there}", highlight=False)


def _corpora(context: Context, wanted: str | None) -> tuple[str, ...]:
    if wanted is None:
        return context.readers.names()
    if checked_corpus(wanted) not in context.readers.names():
        raise NotFound(f"no corpus {wanted!r}; there are: {', '.join(context.readers.names()) or 'none yet'}")
    return (wanted,)


def _wanted(context: Context, corpus: str | None, generation: str | None) -> list[tuple[str, str]]:
    every = [
        (name, one)
        for name in _corpora(context, corpus)
        for one in list_generation_names(CorpusLayout(context.settings.index_root, name))
    ]
    wanted = [(name, one) for name, one in every if generation in (None, one)]
    if generation and not wanted:
        raise NotFound(f"no generation {generation}; see `sluice snapshot list`")
    return wanted


def _verified(context: Context, wanted: list[tuple[str, str]], *, quiet: bool) -> list[_Verdict]:
    with Progress(console=error_console, disable=quiet, transient=True) as progress:
        return [
            _verdict(context, corpus, generation)
            for corpus, generation in progress.track(wanted, description="hashing")
        ]


def _verdict(context: Context, corpus: str, generation: str) -> _Verdict:
    try:
        verify(context.settings.index_root, corpus, generation)
    except (Corrupted, NotFound) as error:
        if generation not in list_generation_names(CorpusLayout(context.settings.index_root, corpus)):
            return _Verdict(corpus, generation, True, "made way for newer ones meanwhile")
        return _Verdict(corpus, generation, False, str(error))
    return _Verdict(corpus, generation, True, "")


def _one_before(layout: CorpusLayout, current: str | None) -> str:
    newest_first = list_generation_names(layout)
    older = newest_first[newest_first.index(current) + 1 :] if current in newest_first else newest_first
    if not older:
        raise NotFound(f"corpus {layout.corpus} has no generation before {current or 'the first'}")
    return older[0]


def _facts(one: GenerationInfo) -> dict[str, object]:
    names = ("name", "is_current", "journal_offset", "document_count", "chunk_count", "size_bytes", "created_at")
    return {**{name: getattr(one, name) for name in names}, "problem": one.problem}


def _row(one: GenerationInfo) -> tuple[object, ...]:
    mark, size = "current" if one.is_current else "", f"{one.size_bytes / 1e6:.1f}"
    return one.name, mark, one.document_count, one.chunk_count, size, one.journal_offset, one.created_at, one.problem


def rebuild(
    corpus: Corpus = "default",
    prove: Annotated[
        bool, typer.Option("--prove", help="Exit with 1 unless the set of chunks is the one it was before.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rebuild the index from the journal and publish it.

    The old generation serves until then.
    """
    with session(as_json=as_json) as context:
        if checked_corpus(corpus) not in context.readers.names():
            raise NotFound(f"no corpus {corpus!r}; there are: {', '.join(context.readers.names()) or 'none yet'}")
        try:
            with context.writers.writing(corpus) as writer:
                done = writer.rebuild()
        except Unavailable as error:
            raise Unavailable(f"{error}; stop the index workers (or `sluice up`) first") from error
        if as_json:
            facts = {"corpus": corpus, "generation": done.generation.name, "is_proven": done.is_proven}
            print_json({**facts, "hash_before": done.hash_before, "hash_after": done.hash_after})
        else:
            verdict = "the same chunks as before" if done.is_proven else "NOT the same chunks as before"
            console.print(
                f"{marked(corpus)}: {done.generation.name}, {done.generation.chunk_count} chunks, {verdict} "
                f"({done.hash_before[:16]} → {done.hash_after[:16]})",
                highlight=False,
            )
        if prove and not done.is_proven:
            raise typer.Exit(1)
