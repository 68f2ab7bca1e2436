"""`sluice rebuild`: a generation made from the journal alone, and the proof that it holds the same chunks."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.output import AsJson, Corpus, checked_corpus, console, marked, print_json
from cli.session import session
from contracts.errors import NotFound, Unavailable


def rebuild(
    corpus: Corpus = "default",
    prove: Annotated[
        bool, typer.Option("--prove", help="Exit with 1 unless the set of chunks is the one it was before.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make the index anew from the journal, and publish it; the old generation serves until then."""
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
