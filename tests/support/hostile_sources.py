"""Chunks sources that drive parsers to extremes, in a process of its own that may take 1.5 GB.

python -m tests.support.hostile_sources
"""

from __future__ import annotations

import resource
import time
from datetime import UTC, datetime

from sluice.contracts.document import Document, Provenance
from sluice.ingest.chunk.chunk import chunk_document
from sluice.ingest.embed.tokens import load_tokenizer
from sluice.ingest.extract.extract import extract_document
from sluice.ingest.settings import ChunkSettings

MEMORY_BYTES = 1_500_000_000
CPU_SECONDS = 15
"""Of one source; each takes less than one on a machine that is not busy."""
ALL = ("py", "js", "ts", "tsx", "go", "rs", "java", "c", "cpp")
HOSTILE = {
    "generics.java": "class A { void f() { a" + "<a" * 20_000,
    "assignments.java": "x=>" * 6_000,
    "assignments.c": "x=>" * 6_000,
    "templates.cpp": "template<class T> " * 2_000 + "a<b," * 8_000,
    "types.ts": "a<b," * 8_000,
    "types.tsx": "a<b," * 8_000,
    "raw.rs": 'r#"' * 20_000,
    "deep.py": "".join(" " * depth + "if x:\n" for depth in range(300)),
    "lambdas.py": "lambda: " * 8_000,
    **{f"open.{suffix}": "([{" * 15_000 for suffix in ALL},
    **{f"closed.{suffix}": "(" * 10_000 + ")" * 10_000 for suffix in ALL},
}


def main() -> None:
    """Raises AssertionError where a source is not whole in its chunks, or took too long."""
    tokenizer = load_tokenizer(None)
    provenance = Provenance(source="file", fetched_at=datetime(2024, 1, 1, tzinfo=UTC))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    for path, source in HOSTILE.items():
        began = time.process_time()
        document = Document(id="f", media_type="text/plain", provenance=provenance, text=source, file_path=path)
        chunks = chunk_document(document, extract_document(document), ChunkSettings(), tokenizer).chunks
        assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(source.split()), path
        assert time.process_time() - began < CPU_SECONDS, path
    print("all are whole")


if __name__ == "__main__":
    main()
