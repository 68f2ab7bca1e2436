"""However large a document is, chunking it takes memory in proportion to its text, and bounded time."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from functools import lru_cache
from time import process_time

import pytest
from tokenizers import Tokenizer

from sluice.contracts.document import Document, Provenance
from sluice.ingest.chunk.chunk import Chunked, chunk_to_limit
from sluice.ingest.chunk.prose import MOST_TOKENS
from sluice.ingest.embed.tokens import WINDOW_CHARACTERS, TokenSpans, count_tokens, load_tokenizer
from sluice.ingest.extract.extract import extract_document
from sluice.ingest.settings import ChunkSettings
from tests.support.repository import REPOSITORY

SOURCE = Provenance(source="file", fetched_at=datetime(2024, 1, 1, tzinfo=UTC))
LEAST_TOKENS = 1_000

PEAK_OF_A_BOMB = """
import re
from datetime import UTC, datetime
from sluice.contracts.document import Document, Provenance
from sluice.ingest.chunk.chunk import chunk_to_limit
from sluice.ingest.embed.tokens import load_tokenizer
from sluice.ingest.extract.extract import extract_document
from sluice.ingest.settings import ChunkSettings

def chunk(text):
    source = Provenance(source="file", fetched_at=datetime(2024, 1, 1, tzinfo=UTC))
    document = Document(id="d", media_type="text/markdown", text=text, provenance=source)
    return chunk_to_limit(document, extract_document(document), ChunkSettings(), tokenizer)

def peak_bytes():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])

tokenizer = load_tokenizer(None)
chunk("Some words of an ordinary document to load what is loaded once. " * 9)
before, text = peak_bytes(), "\\\\[a](b)" * 100_000
chunks = len(chunk(text).document.chunks)
print(chunks, (peak_bytes() - before) / len(text))
"""


@lru_cache(maxsize=1)
def tokenizer() -> Tokenizer:
    return load_tokenizer(None)


def chunked(text: str, media_type: str = "text/markdown", settings: ChunkSettings | None = None) -> Chunked:
    document = Document(id="d", media_type=media_type, provenance=SOURCE, text=text)
    return chunk_to_limit(document, extract_document(document), settings or ChunkSettings(), tokenizer())


def test_a_document_of_nothing_but_links_takes_less_than_150_bytes_for_each_character() -> None:
    command = [sys.executable, "-c", PEAK_OF_A_BOMB]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=True)
    chunks, bytes_per_character = ended.stdout.split()
    assert int(chunks) > 2_000
    assert float(bytes_per_character) < 150


def test_a_document_beyond_the_bound_is_read_up_to_it_and_says_how_much_was_left_out() -> None:
    text = "\n\n".join(f"Paragraph {number} says something." for number in range(1_000))
    limit = ChunkSettings(max_document_tokens=LEAST_TOKENS)
    cut = chunked(text, settings=limit)
    kept = text[: len(text) - cut.characters_left_out]
    assert 0 < cut.characters_left_out < len(text)
    assert count_tokens(kept, tokenizer()) == LEAST_TOKENS
    assert "".join(chunk.text for chunk in cut.document.chunks).split()[-1] == kept.split()[-1]
    assert chunked(kept, settings=limit).characters_left_out == 0
    assert chunked(text).characters_left_out == 0


@pytest.mark.parametrize(
    "text",
    [
        "word and another, " * 8_000,
        "[a](b)" * 25_000,
        "漢" * 150_000,
        "a" * 150_000,
        "x " + "y" * WINDOW_CHARACTERS + " z" * 10,
    ],
)
def test_a_text_of_several_windows_is_covered_and_counts_as_the_whole(text: str) -> None:
    spans = TokenSpans(text, tokenizer())
    whole = tokenizer().encode(text, add_special_tokens=False)
    assert spans.end == len(text)
    assert abs(spans.count(0, len(text)) - len(whole)) <= len(text) // WINDOW_CHARACTERS


@pytest.mark.parametrize(
    ("text", "media_type"),
    [("- [a] (b)\n" * 40_000, "text/markdown"), ("|x|y|\n" * 60_000, "text/markdown"), ("x=1\n" * 90_000, "text/x-go")],
)
def test_lists_tables_and_code_beyond_what_a_splitter_may_take_are_cut_in_seconds(text: str, media_type: str) -> None:
    document = Document(id="d", media_type=media_type, provenance=SOURCE, text=text)
    extracted, begun = extract_document(document), process_time()
    cut = chunk_to_limit(document, extracted, ChunkSettings(), tokenizer())
    assert process_time() - begun < 5
    assert sum(chunk.token_estimate for chunk in cut.document.chunks) > MOST_TOKENS
    assert max(chunk.token_estimate for chunk in cut.document.chunks) <= ChunkSettings().max_tokens
