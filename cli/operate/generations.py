"""The served generations of a corpus: `sluice snapshot`, `rebuild` from the journal, `reindex` with another model."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, NamedTuple

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sluice.cli.command import Shown, chosen, on_disk, table
from sluice.cli.output import checked_corpus, error_console
from sluice.contracts.errors import Conflict, Corrupted, InvalidInput, InvalidSetting, NotFound, Unavailable
from sluice.disk.object_store import ObjectStore, open_store
from sluice.index.folder import CorpusLayout
from sluice.index.generations.publish import list_generation_names
from sluice.index.generations.publish import verify as verify_generation
from sluice.index.journal.records import Vectors
from sluice.index.local.reindex import Plan, Reindexed
from sluice.index.local.reindex import reindex as reindex_corpus
from sluice.index.local.working_set import WritePolicy
from sluice.index.remote.snapshots import Transfer
from sluice.index.remote.snapshots import pull as pull_snapshot
from sluice.index.remote.snapshots import push as push_snapshot
from sluice.ingest.embed.embed import fingerprint_of_corpus
from sluice.ingest.embed.minilm import FINGERPRINTS
from sluice.ingest.settings import EmbedSettings
from sluice.otel import metrics
from sluice.workers.context import Context
from sluice.workers.service.operate.shared_form import pull_all, push_all
from sluice.workers.steps.embed import fill_fallback
from sluice.workers.wiring.index_owner import Roots

_PROBE = "which way does this point"
"""Embedded once before the work begins: it shows that the model answers, and the dimension of its vectors."""


@on_disk
def snapshot(
    context: Context,
    generation: str | None = None,
    verify: bool = False,
    roll_back: bool = False,
    push: bool = False,
    pull: bool = False,
    corpus: str | None = None,
    store: str | None = None,
    as_json: bool = False,
) -> Shown:
    """List the generations of each corpus, the newest first; verify, roll back or copy them."""
    root, action = context.settings.index_root, chosen(verify=verify, rollback=roll_back, push=push, pull=pull)
    if action == "verify":
        return _verify(context, _wanted(context, corpus, generation), quiet=as_json)
    if action is None:
        return _list(context, corpus, generation)
    if (corpus, store, generation) == (None, None, None) and action in ("push", "pull"):
        done = (push_all if action == "push" else pull_all)(context)
        return Shown(done, f"{action}: " + ", ".join(f"{count:,} {kind}" for kind, count in done.items()))
    name = checked_corpus(corpus or "default")
    if action == "pull":
        keep = context.settings.index.keep_generations
        return _moved("pulled", name, pull_snapshot(root, name, _store(context, store), generation, keep))
    _corpora(context, name)
    if action == "push":
        return _moved("pushed", name, push_snapshot(root, name, _store(context, store), generation))
    kept = context.readers.generations(name)
    left = next((one.name for one in kept if one.is_current), None)
    now = context.readers.roll_back(name, generation or _one_before(name, [one.name for one in kept], left))
    told = f"{name}: {left} → {now.name}, {now.chunk_count} chunks"
    return Shown({"corpus": name, "left": left, "current": now}, told)


def _list(context: Context, corpus: str | None, generation: str | None) -> Shown:
    names = ("name", "is_current", "journal_offset", "document_count", "chunk_count", "size_bytes", "created_at")
    found = [
        {"corpus": name, **{field: getattr(one, field) for field in (*names, "problem")}}
        for name in _corpora(context, corpus)
        for one in context.readers.generations(name)
        if generation in (None, one.name)
    ]
    mark = ("", lambda one: "current" if one["is_current"] else "")
    size = ("MB", lambda one: f"{one['size_bytes'] / 1e6:.1f}")
    counts, last = "documents=document_count chunks=chunk_count", "offset=journal_offset created=created_at problem"
    return table("generations", found, "corpus generation=name", mark, counts, size, last)


def _verify(context: Context, wanted: list[tuple[str, str]], *, quiet: bool) -> Shown:
    with Progress(console=error_console, disable=quiet, transient=True) as progress:
        found = [_verdict(context, *one) for one in progress.track(wanted, description="hashing")]
    state = ("state", lambda one: "ok" if one["ok"] else "corrupted")
    shown = table("verified", found, "corpus generation", state, "problem")
    return shown._replace(exit_code=int(not all(one["ok"] for one in found)))


def _verdict(context: Context, corpus: str, generation: str) -> dict[str, Any]:
    is_good, problem = True, ""
    try:
        verify_generation(context.settings.index_root, corpus, generation)
    except (Corrupted, NotFound) as error:
        is_good, problem = False, str(error)
        if generation not in list_generation_names(CorpusLayout(context.settings.index_root, corpus)):
            is_good, problem = True, "made way for newer ones meanwhile"
    return {"corpus": corpus, "generation": generation, "ok": is_good, "problem": problem}


def _wanted(context: Context, corpus: str | None, generation: str | None) -> list[tuple[str, str]]:
    wanted = [
        (name, one)
        for name in _corpora(context, corpus)
        for one in list_generation_names(CorpusLayout(context.settings.index_root, name))
        if generation in (None, one)
    ]
    if generation and not wanted:
        raise NotFound(f"no generation {generation}; see `sluice snapshot`")
    return wanted


def _corpora(context: Context, wanted: str | None) -> tuple[str, ...]:
    """Return the given corpus, or every one where it is None. Raises `NotFound` if there is no such corpus."""
    if wanted is None:
        return context.readers.names()
    if checked_corpus(wanted) not in context.readers.names():
        raise NotFound(f"no corpus {wanted!r}; there are: {', '.join(context.readers.names()) or 'none yet'}")
    return (wanted,)


def _store(context: Context, url: str | None) -> ObjectStore:
    if url is None and context.settings.object_store.url is not None:
        return Roots(context.settings).store(context.settings.index_root)
    if url is None:
        raise InvalidSetting("object_store.url", "not set", "give --store URL, like s3://bucket/prefix")
    return open_store(url, context.settings.object_store)


def _moved(what: str, corpus: str, moved: Transfer) -> Shown:
    travelled = f"{moved.files_moved} files, {moved.bytes_moved:,} bytes travelled"
    there = f"{moved.files_present} files, {moved.bytes_present:,} bytes were there already"
    return Shown({"corpus": corpus, **asdict(moved)}, f"{corpus}: {what} {moved.generation}: {travelled}; {there}")


def _one_before(corpus: str, newest_first: list[str], current: str | None) -> str:
    older = newest_first[newest_first.index(current) + 1 :] if current in newest_first else newest_first
    if not older:
        raise NotFound(f"corpus {corpus} has no generation before {current or 'the first'}")
    return older[0]


@on_disk
def rebuild(context: Context, corpus: str = "default", prove: bool = False, let_go: bool = False) -> Shown:
    """Rebuild the index from the journal and publish it, and fill the fallback's.

    The old generation serves until then.
    """
    if let_go:
        context.ledger.let_go(checked_corpus(corpus), getpass.getuser())
    else:
        _corpora(context, corpus)
    try:
        with context.writers.writing(corpus) as writer:
            done = writer.rebuild()
            filled = fill_fallback(
                corpus, context.settings.index_root, context.readers, context.writers, context.embedding
            )
    except Unavailable as error:
        raise Unavailable(f"{error}; stop the index workers (or `sluice up`) first") from error
    facts = {"corpus": corpus, "generation": done.generation.name, "is_proven": done.is_proven}
    verdict = "the same chunks as before" if done.is_proven else "NOT the same chunks as before"
    told = f"{corpus}: {done.generation.name}, {done.generation.chunk_count} chunks, {verdict} "
    told += f"({done.hash_before[:16]} → {done.hash_after[:16]})"
    if filled is not None:
        facts["fallback_chunks"] = filled
        told += f"\nthe fallback's index is whole, {filled} chunks were added"
    hashes = {"hash_before": done.hash_before, "hash_after": done.hash_after}
    return Shown({**facts, **hashes}, told, exit_code=int(prove and not done.is_proven))


@on_disk
def reindex(
    context: Context,
    model: str | None = None,
    model_version: str | None = None,
    corpus: str = "default",
    patience: float = 60.0,
    keep_old: bool = False,
    as_json: bool = False,
) -> Shown:
    """Embed a corpus anew with another model, then swap.

    The corpus answers and takes in documents meanwhile.

    Interrupted at any moment, the old vectors or the new ones serve, whole, and the same call goes on.
    """
    asked = choose_model(model, model_version)
    if context.settings.index.engine != "local":
        problem = f"{context.settings.index.engine} keeps its vectors where they cannot be swapped"
        raise InvalidSetting("index.engine", problem, "ingest into another corpus instead")
    context.ledger.require_no_backup("reindexing")
    _corpora(context, corpus)
    wanted = _model(context, corpus, asked)
    embedding = _Embedding(context, wanted[0])
    policy = WritePolicy(keep_generations=context.settings.index.keep_generations)
    with _progress(quiet=as_json) as on_progress:
        try:
            plan = Plan(policy, patience, keep_old, on_progress, lambda: context.ledger.require_no_backup("reindexing"))
            done = reindex_corpus(context.settings.index_root, corpus, wanted, embedding, plan)
        except Unavailable as error:
            raise Unavailable(f"{error}; what was built is kept, and the same call goes on") from error
    context.graphs.discard_cypher(corpus)  # it names the model of each document
    return _reindexed(corpus, done, embedding)


def choose_model(model: str | None, model_version: str | None) -> str:
    """Return the model that either option names. Raises `InvalidInput` if neither names one, or they name two."""
    named = {name for name in (model, model_version) if name is not None}
    if len(named) > 1:
        raise InvalidInput("model-version", f"{model_version!r} is not {model!r}", "give --model alone")
    if not named:
        raise InvalidInput("model", "is missing", "name fp32, int8, openai or a fingerprint: --model fp32")
    return named.pop()


class _Embedding:
    """The instance's embedder for one model, behind its cache, with counts of tokens, cache hits and cost."""

    def __init__(self, context: Context, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        self.tokens = self.cache_hits = 0
        self.cost_usd = 0.0
        self._context = context

    def __call__(self, texts: Sequence[str]) -> Vectors:
        embedded = self._context.embedder.embed(texts, self._fingerprint)
        metrics.TOKEN_SPEND.labels("embedding").inc(embedded.tokens)
        self.tokens += embedded.tokens
        self.cache_hits += embedded.cache_hits
        self.cost_usd += embedded.cost_usd
        return embedded.vectors


class _Choice(NamedTuple):
    name: str
    fingerprint: str


def _model(context: Context, corpus: str, model: str) -> tuple[str, int]:
    """Return fingerprint and dimension of a model that the settings have: they embed the questions after the swap.
    Raises `InvalidInput` if there is no such model, or no settings have that fingerprint."""
    choices = _choices(context.settings.embed, corpus)
    wanted = next((one.fingerprint for one in choices if model in one), model)
    try:
        return wanted, context.embedder.embed([_PROBE], wanted).vectors.shape[1]
    except Conflict as error:
        if model in FINGERPRINTS:
            remedy = f'set embed.corpora."{corpus}".precision to {model} first; what has vectors keeps to their model'
        else:
            remedy = "one of " + ", ".join(f"{name} ({fingerprint})" for name, fingerprint in choices)
        raise InvalidInput("model", f"{model!r} is none that the settings can make", remedy) from error


def _choices(settings: EmbedSettings, corpus: str) -> list[_Choice]:
    """Return the models by name; of several endpoints, the corpus's own first."""
    every = (settings.of_corpus(corpus), settings, *map(settings.changed_by, settings.corpora.values()))
    endpoints = (one.model_copy(update={"corpora": {}}) for one in every if one.provider == "openai")
    local = [_Choice(precision, fingerprint) for precision, fingerprint in FINGERPRINTS.items()]
    return [*local, *dict.fromkeys(_Choice("openai", fingerprint_of_corpus(one, corpus)) for one in endpoints)]


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=error_console, disable=quiet, transient=True) as progress:
        task = progress.add_task("embedding", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _reindexed(corpus: str, done: Reindexed, embedding: _Embedding) -> Shown:
    made = done.generation
    value = {
        "corpus": corpus,
        "is_changed": done.is_changed,
        "model_before": done.model_before,
        "model": done.model,
        "generation": made.name if made else None,
        "documents": made.document_count if made else None,
        "chunks": made.chunk_count if made else None,
        "embedded_chunks": done.embedded,
        "cache_hits": embedding.cache_hits,
        "tokens": embedding.tokens,
        "cost_usd": embedding.cost_usd,
        "kept": str(done.kept) if done.kept else None,
    }
    told = f"{corpus}: has the model {done.model} already"
    if made:
        cost = f"{embedding.cache_hits} from the cache, {embedding.tokens:,} tokens, {embedding.cost_usd:.4f} USD"
        told = f"{corpus}: {done.model_before or 'no model'} → {done.model}, {made.name}, {made.chunk_count} chunks; "
        told += f"embedded {done.embedded} ({cost})"
    return Shown(value, told + (f"\nthe corpus as it was is kept in {done.kept}" if done.kept else ""))
