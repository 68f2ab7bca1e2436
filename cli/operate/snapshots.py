"""`sluice snapshot` and `sluice rebuild`: generations listed, verified, rolled back, copied, and made anew."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, NamedTuple

import typer
from rich.progress import Progress

from sluice.cli.command import Shown, chosen, on_disk, table
from sluice.cli.output import Corpus, checked_corpus, error_console, print_table
from sluice.contracts.errors import Corrupted, InvalidSetting, NotFound, Unavailable
from sluice.index.disk.layout import CorpusLayout
from sluice.index.generations.publish import (
    GenerationInfo,
    list_generation_names,
    list_generations,
    read_current_name,
    rollback,
)
from sluice.index.generations.publish import verify as verify_generation
from sluice.index.remote.object_store import ObjectStore, open_store
from sluice.index.remote.snapshots import Transfer
from sluice.index.remote.snapshots import pull as pull_snapshot
from sluice.index.remote.snapshots import push as push_snapshot
from sluice.workers.context import Context


class _Verdict(NamedTuple):
    corpus: str
    generation: str
    ok: bool
    problem: str


@on_disk
def snapshot(
    context: Context,
    generation: Annotated[str | None, typer.Argument(help="One generation; without it, every one.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Hash every file again; exit with 1 where one is not what was published.")
    ] = False,
    roll_back: Annotated[
        bool, typer.Option("--rollback", help="Serve this one, by default the one before; until something new comes.")
    ] = False,
    push: Annotated[bool, typer.Option("--push", help="Copy it to the object store; only new files travel.")] = False,
    pull: Annotated[bool, typer.Option("--pull", help="Load it from there, verified, and serve it.")] = False,
    corpus: Annotated[
        str | None, typer.Option("--corpus", "-c", help="Only this corpus; without it, every one, or `default`.")
    ] = None,
    store: Annotated[
        str | None, typer.Option("--store", help="URL; without it, the setting index.object_store_url.")
    ] = None,
    as_json: bool = False,
) -> Shown:
    """List the generations of each corpus, the newest first; verify, roll back or copy them."""
    root, action = context.settings.index_root, chosen(verify=verify, rollback=roll_back, push=push, pull=pull)
    if action == "verify":
        return _verify(context, corpus, generation, quiet=as_json)
    if action is None:
        return _list(context, corpus, generation)
    name = checked_corpus(corpus or "default")
    if action == "pull":
        keep = context.settings.index.keep_generations
        return _moved("pulled", name, pull_snapshot(root, name, _store(context, store), generation, keep))
    _corpora(context, name)
    if action == "push":
        return _moved("pushed", name, push_snapshot(root, name, _store(context, store), generation))
    layout = CorpusLayout(root, name)
    left = read_current_name(layout)
    now = rollback(root, name, generation or _one_before(layout, left))
    told = f"{name}: {left} → {now.name}, {now.chunk_count} chunks"
    return Shown({"corpus": name, "left": left, "current": now}, told)


def _verify(context: Context, corpus: str | None, generation: str | None, *, quiet: bool) -> Shown:
    verdicts = _verified(context, _wanted(context, corpus, generation), quiet=quiet)
    state = ("state", lambda one: "ok" if one.ok else "corrupted")
    drawn = table("verified", verdicts, "corpus", "generation", state, "problem").drawn
    return Shown([one._asdict() for one in verdicts], drawn, is_good=all(one.ok for one in verdicts))


def _list(context: Context, corpus: str | None, generation: str | None) -> Shown:
    found = [
        (name, one)
        for name in _corpora(context, corpus)
        for one in list_generations(context.settings.index_root, name)
        if generation in (None, one.name)
    ]
    columns = ("corpus", "generation", "", "documents", "chunks", "MB", "offset", "created", "problem")
    return Shown(
        [{"corpus": name, **_facts(one)} for name, one in found],
        lambda: print_table("generations", columns, [(name, *_row(one)) for name, one in found]),
    )


def _store(context: Context, url: str | None) -> ObjectStore:
    url = url or context.settings.index.object_store_url
    if url is None:
        raise InvalidSetting("index.object_store_url", "not set", "give --store URL, like s3://bucket/prefix")
    return open_store(url, context.settings.object_store)


def _moved(what: str, corpus: str, moved: Transfer) -> Shown:
    travelled = f"{moved.files_moved} files, {moved.bytes_moved:,} bytes travelled"
    there = f"{moved.files_present} files, {moved.bytes_present:,} bytes were there already"
    told = f"{corpus}: {what} {moved.generation}: {travelled}; {there}"
    return Shown({"corpus": corpus, **asdict(moved)}, told)


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
        raise NotFound(f"no generation {generation}; see `sluice snapshot`")
    return wanted


def _verified(context: Context, wanted: list[tuple[str, str]], *, quiet: bool) -> list[_Verdict]:
    with Progress(console=error_console, disable=quiet, transient=True) as progress:
        return [
            _verdict(context, corpus, generation)
            for corpus, generation in progress.track(wanted, description="hashing")
        ]


def _verdict(context: Context, corpus: str, generation: str) -> _Verdict:
    try:
        verify_generation(context.settings.index_root, corpus, generation)
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


@on_disk
def rebuild(
    context: Context,
    corpus: Corpus = "default",
    prove: Annotated[
        bool, typer.Option("--prove", help="Exit with 1 unless the set of chunks is the one it was before.")
    ] = False,
) -> Shown:
    """Rebuild the index from the journal and publish it.

    The old generation serves until then.
    """
    _corpora(context, corpus)
    try:
        with context.writers.writing(corpus) as writer:
            done = writer.rebuild()
    except Unavailable as error:
        raise Unavailable(f"{error}; stop the index workers (or `sluice up`) first") from error
    facts = {"corpus": corpus, "generation": done.generation.name, "is_proven": done.is_proven}
    verdict = "the same chunks as before" if done.is_proven else "NOT the same chunks as before"
    told = f"{corpus}: {done.generation.name}, {done.generation.chunk_count} chunks, {verdict} "
    told += f"({done.hash_before[:16]} → {done.hash_after[:16]})"
    hashes = {"hash_before": done.hash_before, "hash_after": done.hash_after}
    return Shown({**facts, **hashes}, told, is_good=done.is_proven or not prove)
