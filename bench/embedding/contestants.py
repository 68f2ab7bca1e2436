"""Who embeds: the local model in either precision, and sentence-transformers in an environment of its own.

Each takes texts and gives their vectors and the CPU seconds that it took from texts to vectors, tokenising included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sluice.ingest.embed.minilm import MiniLM, Precision
from sluice.ingest.embed.tokens import packaged_file
from tests.support.repository import MODELS, REPOSITORY

ENVIRONMENT = REPOSITORY / ".cache" / "peers-embed"
PACKAGES = ("torch==2.13.0", "sentence-transformers==6.2.0")
"""In this order, so that the second takes the first as it is."""
WARM = ["how do I cancel an asyncio task without losing its result"]

Vectors = NDArray[np.float32]


class Contestant(Protocol):
    """Texts to (vectors, CPU seconds)."""

    def embed(self, texts: Sequence[str]) -> tuple[Vectors, float]:
        """Rows in the order of the texts."""
        ...


class Ours:
    """The local model without its cache and without a queue, loaded."""

    def __init__(self, precision: Precision, threads: int = 1) -> None:
        self._model = MiniLM(MODELS, threads, precision=precision)
        self._model.embed(WARM)

    def embed(self, texts: Sequence[str]) -> tuple[Vectors, float]:
        started = time.process_time()
        vectors = self._model.embed(texts).vectors
        return vectors, time.process_time() - started


class Peer:
    """The child process that runs `bench/embedding/peer.py`."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._answer()
        self.embed(WARM)

    def embed(self, texts: Sequence[str]) -> tuple[Vectors, float]:
        texts_path, vectors_path = self._folder / "texts.json", self._folder / "vectors.npy"
        texts_path.write_text(json.dumps(list(texts)))
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"texts": str(texts_path), "vectors": str(vectors_path)}) + "\n")
        self._process.stdin.flush()
        spent = float(self._answer()["cpu_seconds"])
        return np.load(vectors_path), spent

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"sentence-transformers ended with status {self._process.wait(timeout=60)}")
        return json.loads(line)


@contextmanager
def sentence_transformers(folder: Path, threads: int = 1) -> Iterator[Peer]:
    """The peer on the same weights; `folder` is for what passes between. Ends with the context."""
    script = REPOSITORY / "bench" / "embedding" / "peer.py"
    command = [str(_interpreter()), str(script), str(packaged_file("model.safetensors").parent), str(threads)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            yield Peer(process, folder)
        finally:
            process.kill()


def _interpreter() -> Path:
    """The one that has the peer, installed at first."""
    python, stamp = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "installed"
    if not stamp.exists() or stamp.read_text() != " ".join(PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)
        for package in PACKAGES:
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", package], check=True)
        stamp.write_text(" ".join(PACKAGES))
    return python
