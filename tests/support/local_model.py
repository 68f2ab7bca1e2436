"""The local embedding model, loaded once for each process of a test run; whether this processor computes it in int8."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidSetting
from sluice.ingest.embed.minilm import MiniLM, require_exact_products
from tests.support.repository import MODELS


@pytest.fixture(scope="session")
def minilm() -> MiniLM:
    return MiniLM(MODELS, threads=1)


@pytest.fixture(scope="session")
def exact_int8(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The probe of 8-bit products; the test is skipped where the processor saturates them and int8 is refused."""
    from sluice.ingest.embed.minilm_graph import build_probe

    probe = tmp_path_factory.mktemp("int8") / "probe.onnx"
    probe.write_bytes(build_probe().SerializeToString(deterministic=True))
    try:
        require_exact_products(probe)
    except InvalidSetting as refusal:
        pytest.skip(f"not on this processor: {refusal}")
    return probe
