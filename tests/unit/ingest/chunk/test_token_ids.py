"""The chunker hands on exactly the ids that the embedder would have made, or none."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from sluice.contracts.document import ChunkBatch, Document, Provenance
from sluice.contracts.errors import Corrupted
from sluice.ingest.chunk.chunk import Tokenized, chunk_and_tokenize, chunk_batch, embedding_texts, select_chunks
from sluice.ingest.embed.minilm import MAX_TOKENS, MiniLM
from sluice.ingest.embed.tokens import TokenizedText, load_tokenizer, tokenizer_sha256
from sluice.ingest.extract.extract import extract_document
from sluice.ingest.settings import ChunkSettings
from tests.support.repository import DATA

SOURCE = Provenance(source="file", fetched_at=datetime(2024, 1, 1, tzinfo=UTC))
DEFAULTS = ChunkSettings()
ODD = st.text(
    st.one_of(
        st.sampled_from(" \n\t\r\u00a0\u3000\u200b\u0301\u0327\u0000\u2028\ufffd\x1c\x85.-_[]#>`|"),
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from("aeiouAEIOUßİıﬁΣς한국어日本語العربيةไทย😀🏽‍👩"),
    ),
    max_size=400,
)


@lru_cache(maxsize=1)
def tokenizer() -> Tokenizer:
    return load_tokenizer(None)


def tokenized(text: str, media_type: str = "text/markdown", title: str | None = None) -> Tokenized:
    document = Document(id="d", media_type=media_type, provenance=SOURCE, text=text, title=title)
    return chunk_and_tokenize(document, extract_document(document), DEFAULTS, tokenizer())


def batch_of(*documents: Tokenized) -> ChunkBatch:
    batch = chunk_batch(documents, tokenizer_sha256(tokenizer()))
    return ChunkBatch.model_validate_json(batch.model_dump_json())


def assert_exact(*documents: Tokenized) -> tuple[int, int]:
    """(texts that brought their ids, texts)."""
    texts = embedding_texts(batch_of(*documents))
    assert texts == [text for document in documents for text in document.document.embedding_texts()]
    brought = [text for text in texts if isinstance(text, TokenizedText)]
    for text in brought:
        assert list(text.token_ids) == tokenizer().encode(str(text), add_special_tokens=False).ids
    return len(brought), len(texts)


@pytest.mark.parametrize("collection", ["scifact_train", "cosqa_dev", "squad20_dev"])
def test_real_texts_bring_exactly_the_ids_of_the_whole_text(collection: str) -> None:
    path = DATA / collection / "corpus.jsonl"
    if not path.exists():
        pytest.skip(f"the public collection {path} is not on this machine")
    kinds = {"cosqa_dev": "text/x-python"}
    with path.open() as lines:
        rows = [json.loads(line) for line in islice(lines, 0, None, 40)]
    brought, texts = assert_exact(
        *(tokenized(row["text"], kinds.get(collection, "text/plain"), row.get("title")) for row in rows)
    )
    assert brought > 0.95 * texts


@given(text=ODD, title=st.none() | ODD, heading=ODD, media_type=st.sampled_from(["text/markdown", "text/plain"]))
def test_odd_letters_never_bring_ids_that_differ(text: str, title: str | None, heading: str, media_type: str) -> None:
    body = f"# {heading}\n\n{text} " + f"{text[:40]} word " * 90
    assert_exact(tokenized(body, media_type, title or None))


def test_an_endless_word_that_is_cut_brings_none_and_is_tokenised_after_all() -> None:
    brought, texts = assert_exact(tokenized("x" * 20_000, "text/plain"))
    assert brought < texts


def test_a_blob_without_ids_is_read_as_ever() -> None:
    document = tokenized("# A\n\nsome words").document
    raw = json.loads(ChunkBatch(documents=(document,)).model_dump_json())
    del raw["tokens"]
    texts = embedding_texts(ChunkBatch.model_validate_json(json.dumps(raw)))
    assert texts == document.embedding_texts()
    assert not any(isinstance(text, TokenizedText) for text in texts)


@given(st.data())
def test_chunks_that_are_taken_out_take_their_ids_along(data: st.DataObject) -> None:
    long = "\n\n".join(f"# Part {number}\n\n{'word ' * 300}{number}" for number in range(4))
    whole = batch_of(tokenized(long), tokenized("other words"), tokenized(long.replace("word", "term")))
    every = [chunk.chunk_id for document in whole.documents for chunk in document.chunks]
    kept = data.draw(st.sets(st.sampled_from(every)))
    left = select_chunks(whole, lambda chunk: chunk.chunk_id in kept)
    assert [chunk.chunk_id for document in left.documents for chunk in document.chunks] == [
        one for one in every if one in kept
    ]
    assert all(document.chunks for document in left.documents)
    rows = {str(text): list(text.token_ids) for text in embedding_texts(whole) if isinstance(text, TokenizedText)}
    for text in embedding_texts(left):
        assert isinstance(text, TokenizedText)
        assert list(text.token_ids) == rows[str(text)]


def test_ids_that_do_not_fit_their_texts_are_corrupted() -> None:
    batch = batch_of(tokenized("some words"), tokenized("some other words"))
    with pytest.raises(Corrupted, match="token ids for 1 texts"):
        embedding_texts(batch.model_copy(update={"documents": batch.documents[:1]}))


def test_the_embedder_reads_the_ids_of_its_own_tokenizer_and_no_others(minilm: MiniLM) -> None:
    texts = embedding_texts(batch_of(tokenized("word " * 700, title="A title"), tokenized("other words")))
    assert all(isinstance(text, TokenizedText) for text in texts)
    plain = minilm.embed([str(text) for text in texts])
    with_ids = minilm.embed(texts)
    np.testing.assert_array_equal(with_ids.vectors, plain.vectors)
    assert with_ids.tokens == plain.tokens
    misled = TokenizedText.of(texts[0], texts[-1].token_ids, texts[0].tokenizer_sha256)  # type: ignore[attr-defined]
    assert not np.allclose(minilm.embed([misled]).vectors[0], plain.vectors[0], atol=1e-2), "its ids are what is read"
    foreign = TokenizedText.of(texts[0], texts[-1].token_ids, "0" * 64)  # type: ignore[attr-defined]
    np.testing.assert_allclose(minilm.embed([foreign]).vectors[0], plain.vectors[0], atol=1e-5)
    long = TokenizedText.of(
        "word " * 400, tokenizer().encode("word " * 400, add_special_tokens=False).ids, tokenizer_sha256(tokenizer())
    )
    assert minilm.embed([long]).tokens == MAX_TOKENS
