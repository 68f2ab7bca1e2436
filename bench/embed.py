"""How fast the local model embeds: `python -m bench.embed [CORPUS.jsonl] [--texts N] [--rounds N] [--precision P]`.

With `--against` it is measured beside sentence-transformers instead (`bench.embedding`), on the public collections:
tokens per CPU-second on one thread, and nDCG@10.

Without, prints the time to load, the resident memory, and for each number of threads the median over rounds
of texts and tokens per second of the embedder alone (no cache, no queue), then the time of a short
query. The texts are a corpus in JSON lines with `title` and `text`, by default the docstrings of
Python's standard library.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from bench.embedding.against import measure_embedding
from sluice.ingest.embed.minilm import MiniLM, Precision

QUERY = "how do I cancel an asyncio task without losing"
"""Ten tokens with [CLS] and [SEP] not counted."""
QUERY_REPEATS = 200


def main() -> None:
    arguments = parsed_arguments()
    if arguments.against:
        for name, value in measure_embedding(rounds=arguments.rounds, documents=arguments.documents).items():
            print(f"{name:<48} {value:12,.4f}")
        return
    texts = list(islice(texts_of(arguments.corpus), arguments.texts))
    print(f"{len(texts)} texts, {arguments.rounds} rounds, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as scratch:
        model_dir = arguments.model_dir or Path(scratch)
        report_load(model_dir, arguments.precision)
        for threads in sorted({1, os.cpu_count() or 1}):
            report_speed(MiniLM(model_dir, threads, precision=arguments.precision), threads, texts, arguments.rounds)
    print(f"resident memory at the end: {resident_megabytes()} MB")


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.embed", description="Measure the local embedding model.")
    parser.add_argument("corpus", nargs="?", type=Path, help="JSON lines with title and text")
    parser.add_argument("--texts", type=int, default=200, help="how many texts of it to embed (default 200)")
    parser.add_argument("--rounds", type=int, default=3, help="how often (default 3)")
    parser.add_argument("--model-dir", type=Path, help="where the model is kept (default: built in a scratch folder)")
    parser.add_argument("--precision", choices=("fp32", "int8"), default="fp32", help="of the model (default fp32)")
    parser.add_argument("--against", action="store_true", help="measure sentence-transformers beside it")
    parser.add_argument("--documents", type=int, help="with --against: of scifact_train (default all 5,183)")
    return parser.parse_args()


def texts_of(corpus: Path | None) -> Iterator[str]:
    if corpus is None:
        yield from docstrings()
        return
    with corpus.open(encoding="utf-8") as lines:
        for line in lines:
            document = json.loads(line)
            yield "\n".join(part for part in (document.get("title"), document.get("text")) if part)


def docstrings() -> Iterator[str]:
    """Real prose that every installation has: what the standard library says about itself, where it says much."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if len(text) > 200:
                    yield text


def report_load(model_dir: Path, precision: Precision) -> None:
    before = resident_megabytes()
    started = time.perf_counter()
    MiniLM(model_dir, precision=precision).embed([QUERY])
    cold = time.perf_counter() - started
    started = time.perf_counter()
    MiniLM(model_dir, precision=precision).embed([QUERY])
    warm = time.perf_counter() - started
    print(f"first embedding of a process: {cold:.2f} s (builds where need be), of a second model {warm:.2f} s")
    print(f"resident memory: {before} MB before, {resident_megabytes()} MB after")


def report_speed(model: MiniLM, threads: int, texts: Sequence[str], rounds: int) -> None:
    model.embed([QUERY])
    seconds, tokens = [], 0
    for _ in range(rounds):
        started = time.perf_counter()
        tokens = model.embed(texts).tokens
        seconds.append(time.perf_counter() - started)
    median = statistics.median(seconds)
    print(f"threads {threads}: {len(texts) / median:.1f} texts/s, {tokens / median:.0f} tokens/s", end="")
    print(f" ({tokens / len(texts):.0f} tokens per text, spread {min(seconds):.2f} to {max(seconds):.2f} s)", end="")
    p50, p95 = query_milliseconds(model)
    print(f"; query p50 {p50:.1f} ms, p95 {p95:.1f} ms")


def query_milliseconds(model: MiniLM) -> tuple[float, float]:
    durations = []
    for _ in range(QUERY_REPEATS):
        started = time.perf_counter()
        model.embed([QUERY])
        durations.append(1e3 * (time.perf_counter() - started))
    return statistics.median(durations), statistics.quantiles(durations, n=20)[-1]


def resident_megabytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1_000_000


if __name__ == "__main__":
    main()
