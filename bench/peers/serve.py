"""One engine at the end of a pipe: a line of JSON asks, a line of JSON answers, the clock runs in here.

    {"do": "ingest", "texts": "texts.json", "vectors": "vectors.npy"}          {"wall_seconds": 1.2, "cpu_seconds": 1.1}
    {"do": "search", "texts": …, "vectors": …, "strategy": "hybrid", "limit": 10}    {"wall_ms": […], "found": [[…]], …}
    {"do": "freshen", "first": 100000, "finish": true, "strategy": "hybrid", …}  {"wall_ms": 9.9, "add_ms": 7.2, …}

What was added is asked for by the first word of its last text, which nothing else has, and by its vector. With `finish`
the engine also does what it leaves undone by then, within the time. The process keeps to one processor, and the
library's own output goes to standard error.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.engine import Chunks, Engine

PATIENCE_SECONDS = 60.0
"""How long what was added may stay unfound."""


def main(engine: Callable[[Path], Engine]) -> None:
    """Serve the engine in the folder that the first argument names, until the pipe closes."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serving = engine(Path(sys.argv[1]))
    _answer(answers, {name: getattr(serving, name) for name in ("durability", "after_add", "strategies")})
    for line in sys.stdin:
        request = json.loads(line)
        _answer(answers, _DEEDS[request["do"]](serving, request))
    serving.close()


def _ingest(engine: Engine, request: dict[str, Any]) -> dict[str, Any]:
    prepared = engine.prepare(_chunks(request))
    gc.collect()
    gc.freeze()  # what was prepared is no engine's to look through
    wall, cpu = time.perf_counter(), time.process_time()
    engine.ingest(prepared)
    return {"wall_seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}


def _search(engine: Engine, request: dict[str, Any]) -> dict[str, Any]:
    questions = _chunks(request)
    strategy, limit = request["strategy"], request["limit"]
    milliseconds, found = [], []
    cpu = time.process_time()
    for text, vector in zip(questions.texts, questions.vectors, strict=True):
        started = time.perf_counter()
        hits = engine.search(text, vector, strategy, limit)
        milliseconds.append((time.perf_counter() - started) * 1e3)
        if not all(text for _, text in hits):
            raise ValueError("a hit came without its text")
        found.append([number for number, _ in hits])
    cpu_ms = (time.process_time() - cpu) * 1e3 / len(milliseconds)
    return {"wall_ms": milliseconds, "cpu_ms": cpu_ms, "found": found}


def _freshen(engine: Engine, request: dict[str, Any]) -> dict[str, Any]:
    chunks = _chunks(request)
    prepared = engine.prepare(chunks)
    if request["finish"]:
        engine.finish()  # what came before is not what is measured
    wall, cpu = time.perf_counter(), time.process_time()
    engine.add(prepared)
    if request["finish"]:
        engine.finish()
    added = time.perf_counter() - wall
    while chunks.numbers[-1] not in _numbers(engine, chunks, request["strategy"]):
        if time.perf_counter() - wall > PATIENCE_SECONDS:
            raise TimeoutError(f"chunk {chunks.numbers[-1]} was not found within {PATIENCE_SECONDS:.0f} s")
    found, spent = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall_ms": found * 1e3, "cpu_ms": spent * 1e3, "add_ms": added * 1e3}


def _numbers(engine: Engine, chunks: Chunks, strategy: str) -> list[int]:
    word = chunks.texts[-1].split()[0]
    return [number for number, _ in engine.search(word, chunks.vectors[-1], strategy, 10)]


def _chunks(request: dict[str, Any]) -> Chunks:
    texts = json.loads(Path(request["texts"]).read_text(encoding="utf-8"))
    return Chunks(request.get("first", 0), texts, np.load(request["vectors"]))


def _answer(answers: Any, answer: dict[str, Any]) -> None:
    print(json.dumps(answer), file=answers, flush=True)


_DEEDS = {"ingest": _ingest, "search": _search, "freshen": _freshen}
