"""`sluice reindex`: the corpus gets the vectors of another model, while it serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, NamedTuple

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sluice.cli.output import AsJson, Corpus, checked_corpus, console, error_console, marked, print_json
from sluice.cli.session import session
from sluice.contracts.errors import Conflict, InvalidInput, InvalidSetting, NotFound, Unavailable
from sluice.index.journal.records import Vectors
from sluice.index.local.reindex import Plan, Reindexed, reindex
from sluice.index.local.write_policy import WritePolicy
from sluice.ingest.embed.embed import fingerprint_of_corpus
from sluice.ingest.embed.minilm import FINGERPRINTS
from sluice.ingest.settings import EmbedSettings
from sluice.otel import metrics
from sluice.workers.context import Context

_PROBE = "which way does this point"
"""Embedded once before anything is built: it shows that the model answers, and how wide its vectors are."""


def reindex_corpus(
    model: Annotated[
        str | None,
        typer.Option("--model", help="fp32 or int8 (the local model), openai (the endpoint), or a fingerprint."),
    ] = None,
    model_version: Annotated[str | None, typer.Option("--model-version", help="The same as --model.")] = None,
    corpus: Corpus = "default",
    patience: Annotated[
        float, typer.Option("--patience", min=0, help="Seconds that index workers may take to hand the corpus over.")
    ] = 60.0,
    keep_old: Annotated[bool, typer.Option("--keep-old", help="Keep the corpus as it was, and say where.")] = False,
    as_json: AsJson = False,
) -> None:
    """Embed a corpus anew with another model, then swap.

    The corpus answers and takes in documents meanwhile.

    Interrupted at any moment, the old vectors or the new ones serve, whole, and the same call goes on.
    """
    with session(as_json=as_json) as context:
        asked = choose_model(model, model_version)
        _check(context, checked_corpus(corpus))
        wanted = _model(context, corpus, asked)
        embedding = _Embedding(context, wanted[0])
        with _progress(quiet=as_json) as on_progress:
            plan = Plan(
                WritePolicy(keep_generations=context.settings.index.keep_generations), patience, keep_old, on_progress
            )
            try:
                done = reindex(context.settings.index_root, corpus, wanted, embedding, plan)
            except Unavailable as error:
                raise Unavailable(f"{error}; what was built is kept, and the same call goes on") from error
        if done.generation:
            context.shipper.ship(corpus, done.generation.name)
        context.graphs.discard_cypher(corpus)  # it names the model of each document
        _tell(corpus, done, embedding, as_json=as_json)


def choose_model(model: str | None, model_version: str | None) -> str:
    """The model that either option names.

    Raises:
        InvalidInput: none does, or they name two.
    """
    named = {name for name in (model, model_version) if name is not None}
    if len(named) > 1:
        raise InvalidInput("model-version", f"{model_version!r} is not {model!r}", "give --model alone")
    if not named:
        raise InvalidInput("model", "is missing", "name fp32, int8, openai or a fingerprint: --model fp32")
    return named.pop()


class _Embedding:
    """The instance's embedder, behind its cache, of one model; and what it has cost."""

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


def _check(context: Context, corpus: str) -> None:
    if context.settings.index.engine != "local":
        problem = f"{context.settings.index.engine} keeps its vectors where they cannot be swapped"
        raise InvalidSetting("index.engine", problem, "ingest into another corpus instead")
    if corpus not in context.readers.names():
        raise NotFound(f"no corpus {corpus!r}; there are: {', '.join(context.readers.names()) or 'none yet'}")


def _model(context: Context, corpus: str, model: str) -> tuple[str, int]:
    """The fingerprint and dimension of a model that this instance embeds with: its questions must be, after the swap.

    Raises:
        InvalidInput: there is no such model, or the settings have none of that fingerprint.
    """
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
    """The models by name; of several endpoints, the corpus's own first."""
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


def _tell(corpus: str, done: Reindexed, embedding: _Embedding, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "corpus": corpus,
                "is_changed": done.is_changed,
                "model_before": done.model_before,
                "model": done.model,
                "generation": done.generation.name if done.generation else None,
                "documents": done.generation.document_count if done.generation else None,
                "chunks": done.generation.chunk_count if done.generation else None,
                "embedded_chunks": done.embedded,
                "cache_hits": embedding.cache_hits,
                "tokens": embedding.tokens,
                "cost_usd": embedding.cost_usd,
                "kept": str(done.kept) if done.kept else None,
            }
        )
        return
    if done.generation:
        console.print(
            f"{marked(corpus)}: {marked(done.model_before or 'no model')} → {marked(done.model)}, "
            f"{done.generation.name}, {done.generation.chunk_count} chunks; embedded {done.embedded} "
            f"({embedding.cache_hits} from the cache, {embedding.tokens:,} tokens, {embedding.cost_usd:.4f} USD)",
            highlight=False,
            soft_wrap=True,
        )
    else:
        told = f"{marked(corpus)}: has the model {marked(done.model)} already"
        console.print(told, highlight=False, soft_wrap=True)
    if done.kept:
        console.print(f"the corpus as it was is kept in {marked(done.kept)}", highlight=False, soft_wrap=True)
