"""The local embedding model, loaded once for each process of a test run."""

from __future__ import annotations

import pytest

from sluice.ingest.embed.minilm.model import MiniLM
from tests.support.repository import MODELS


@pytest.fixture(scope="session")
def minilm() -> MiniLM:
    return MiniLM(MODELS, threads=1)
