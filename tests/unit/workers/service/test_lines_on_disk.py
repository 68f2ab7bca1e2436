"""Lines that a chunk names are those of the file on disk, whatever its line ends, marks and controls."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from sluice.contracts.document import Chunk
from sluice.ingest.chunk.chunk import chunk_document
from sluice.ingest.embed.tokens import load_tokenizer
from sluice.ingest.extract.extract import extract_document
from sluice.ingest.settings import ChunkSettings
from sluice.workers.service.read_files import documents_in

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PIECES = st.sampled_from(
    [
        "word",
        "- item",
        "## Heading",
        "\tindented\tby tabs",
        "form\ffeed",
        "next\x85line",
        "line\u2028separator and paragraph\u2029separator",
        "lone\rreturn",
        "<!-- hidden\nover lines -->",
        "<details hidden>\nnever\nshown</details>",
        "```\ncode\n```",
        "| a | b |\n| - | - |\n| 1 | 2 |",
        "",
        "zero\u200bwidth",
        "def f():\n    return 1",
    ]
)


@lru_cache(maxsize=1)
def tokenizer() -> Tokenizer:
    return load_tokenizer(None)


def chunks_of(name: str, body: bytes) -> tuple[Chunk, ...]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(body)
        found = list(documents_in([path], now=NOW, on_skip=lambda path, reason: None))
    settings = ChunkSettings(max_tokens=40)
    return tuple(
        chunk
        for document in found
        for chunk in chunk_document(document, extract_document(document), settings, tokenizer()).chunks
    )


@pytest.mark.parametrize("name", ["guide.md", "notes.txt", "module.py", "script.sh", "data.json"])
@given(
    pieces=st.lists(PIECES, min_size=1, max_size=30),
    line_end=st.sampled_from(["\n", "\r\n"]),
    has_mark=st.booleans(),
    has_front_matter=st.booleans(),
)
def test_the_words_of_a_chunk_stand_in_the_lines_that_it_names(
    name: str, pieces: list[str], line_end: str, has_mark: bool, has_front_matter: bool
) -> None:
    front = ["---", "title: A guide", "---"] if has_front_matter else []
    lines = [f"{line} n{number}" for number, line in enumerate("\n".join([*front[:0], *pieces]).split("\n"))]
    lines = [*front, *lines]
    body = line_end.join(lines).encode()
    for chunk in chunks_of(name, b"\xef\xbb\xbf" * has_mark + body):
        on_disk = body.decode().split("\n")[chunk.start_line - 1 : chunk.end_line]
        heading, _, rest = chunk.text.partition("\n")
        is_repeated = heading.startswith("#") and heading not in (line.strip() for line in on_disk)
        words = (rest if is_repeated else chunk.text).split()
        marks = [word for word in words if word.strip("|").startswith("n") and word[1:].isdigit()]
        for mark in marks:
            assert any(mark in line.split() for line in on_disk), (mark, chunk.start_line, chunk.end_line)
        if chunk.text.split()[-1] in marks:
            assert chunk.text.split()[-1] in on_disk[-1].split()
