"""Every bench: `python -m bench [DATA_DIR]`. What the data directory lacks is skipped, and said.

Takes some two hours on two cores, most of it for the index and its peers; each part can be run alone
(`python -m bench.index`, `bench.quality`, `bench.embed --against`, `bench.ledger`, `bench.queues`, `bench.extraction`,
`bench.crawl`, `bench.startup`); `bench.ask`, `bench.ask.echoes`, `bench.defence` and `bench.evaluation` are only run
alone. `EXTRACT_DIR` names a folder of pages with their gold text, NAME.html beside NAME.txt.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from bench.crawl.__main__ import measure_crawl
from bench.crawl.__main__ import report as crawl_report
from bench.embedding.against import measure_embedding
from bench.extraction.__main__ import EXTRACTION_ROUNDS, chosen_pages, measure_extraction, print_results
from bench.index.__main__ import MEASURES, measure_index
from bench.index.targets import table
from bench.ingest import measure_ingest
from bench.latency import measure_latency, print_latency
from bench.ledger import measure_ledger
from bench.quality.__main__ import CACHE, collections_in
from bench.quality.document import document
from bench.quality.measure import measure_quality
from bench.queues.__main__ import measure_queues
from bench.startup import measure_startup

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


def main() -> None:
    """Run and print everything."""
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    print("start, rest and end of an instance")
    _print(measure_startup())
    print("latency of an idle instance, medians")
    print_latency(measure_latency())
    print("the ledger on SQLite")
    _print(measure_ledger())
    print("CPU per chunk through the queues")
    _print(measure_queues())
    print("extraction beside trafilatura: F1, pages per CPU-second, structure kept")
    pages = chosen_pages()
    print_results(pages, measure_extraction(pages, EXTRACTION_ROUNDS))
    print("the crawl beside Crawl4AI")
    print(crawl_report(measure_crawl()))
    if not collections_in(data, None):
        print(f"index, embedding, quality, ingest: skipped, no collection in {data}")
        return
    for measure in MEASURES:
        print(f"the index: {measure}")
        print("\n".join(table(measure_index(measure, data))))
    print("embedding, one thread")
    _print(measure_embedding(data))
    print(document(list(measure_quality(collections_in(data, None), None, CACHE)), "python -m bench.quality DATA_DIR"))
    print("ingest through the pipeline against the embedder alone")
    _print(measure_ingest(data / "scifact_train" / "corpus.jsonl"))


def _print(figures: Mapping[str, float]) -> None:
    for name, value in figures.items():
        print(f"{name:<40} {value:12,.2f}")


if __name__ == "__main__":
    main()
