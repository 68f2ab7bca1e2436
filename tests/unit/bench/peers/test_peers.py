"""What every peer's adapter promises, shown on the peers themselves where their environment was made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.index.contestants import PEERS, Contestant, command_of, write
from bench.peers.environment import ENVIRONMENT

needs_peers = pytest.mark.skipif(
    not (ENVIRONMENT / "installed").exists(), reason="the peers are not installed: python -m bench.index --quick"
)
TEXTS = [f"passage number{row} tells of subject{row % 7}" for row in range(500)]


@needs_peers
@pytest.mark.parametrize("name", PEERS)
def test_a_peer_finds_what_it_was_given_and_what_came_after(name: str, tmp_path: Path) -> None:
    vectors = np.random.default_rng(3).standard_normal((510, 384), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    questions = write(tmp_path, "questions", [f"number{row}" for row in range(5)], vectors[:5])
    newcomers = [f"newcomer{row} text" for row in range(10)]
    with Contestant(name, command_of(name), tmp_path / name) as peer:
        peer.ingest(write(tmp_path, "corpus", TEXTS, vectors[:500]))
        for strategy in peer.strategies:
            assert [numbers[0] for numbers in peer.search(questions, strategy)["found"]] == list(range(5))
        for number, finish in enumerate([False, True] if peer.after_add else [False]):
            texts = [f"{number}{text}" for text in newcomers]
            added = write(tmp_path, f"added-{number}", texts, vectors[500:])
            fresh = peer.freshen(added, 500 + 10 * number, peer.strategies[-1], finish)
            assert 0 < fresh["add_ms"] < fresh["wall_ms"]
