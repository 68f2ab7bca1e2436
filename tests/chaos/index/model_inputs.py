"""What the model test draws: few documents, few texts, every setting that changes how files are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from sluice.contracts.document import ChunkedDocument
from sluice.contracts.retrieval import Filters
from sluice.index.local.working_set import WritePolicy
from tests.chaos.index.corpus import MAKE

NAMES = tuple(f"d{number}" for number in range(6))
TEXTS = ("ferrets sleep all day", "otters swim upstream", "martens climb tall pines", "badgers dig deep setts")
EVERYTHING = " ".join(TEXTS)


def model_document(name: str, texts: Sequence[str], language: str = "en", title: str | None = None) -> ChunkedDocument:
    """A document whose facts tell how many passages it has, so that a filter on them can be predicted."""
    return MAKE.document(
        name,
        *texts,
        url=f"https://site{len(texts)}.example/{name}",
        path=f"part{len(texts)}/{name}.md",
        language=language,
        title=title,
        source="crawl" if title else "file",
        metadata={"pieces": len(texts), "titled": title is not None},
    )


DOCUMENTS = st.builds(
    model_document,
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(TEXTS), max_size=3, unique=True),
    st.sampled_from(("en", "de")),
    st.sampled_from((None, "Stoats")),
)
SETTINGS = st.builds(
    WritePolicy,
    keep_generations=st.integers(1, 3),
    max_segments=st.sampled_from((1, 2, 3, 24)),
    merge_factor=st.sampled_from((2, 4)),
    background_merge_chunks=st.sampled_from((0, 5_000)),
    flush_chunks=st.sampled_from((1, 2, 4, 20_000)),
    journal_segment_bytes=st.sampled_from((1_000, 64_000_000)),
)
FILTERS: tuple[tuple[Filters, Callable[[ChunkedDocument], bool]], ...] = (
    (Filters(), lambda held: True),
    (Filters(document_ids=NAMES[:2]), lambda held: held.document_id in NAMES[:2]),
    (Filters(languages=("de",)), lambda held: all(chunk.language == "de" for chunk in held.chunks)),
    (Filters(sources=("crawl",)), lambda held: held.provenance.source == "crawl"),
    (Filters(domains=("site2.example",)), lambda held: len(held.chunks) == 2),
    (Filters(path_prefix="part1/"), lambda held: len(held.chunks) == 1),
    (Filters(metadata={"titled": True, "pieces": 3}), lambda held: bool(held.title) and len(held.chunks) == 3),
)
