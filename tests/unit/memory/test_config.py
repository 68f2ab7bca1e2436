"""What `rag_config.json` may say, and how it is told where it is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidSetting
from sluice.memory.config import RagConfig, config_path, read_config


def test_without_a_file_everything_is_as_documented(tmp_path: Path) -> None:
    assert read_config(tmp_path / "rag_config.json") == RagConfig()


def test_the_file_lies_beside_the_folder_of_databases() -> None:
    assert config_path(Path(".ralph/db/memory")) == Path(".ralph/rag_config.json")
    assert config_path(Path("/srv/notes")) == Path("/srv/notes/rag_config.json")


def test_values_of_the_file_count(tmp_path: Path) -> None:
    path = tmp_path / "rag_config.json"
    path.write_text(json.dumps({"top_k": 9, "embedder": {"provider": "none"}, "collection": {"hnsw_m": 32}}))
    config = read_config(path)
    assert (config.top_k, config.embedder.provider, config.collection.hnsw_m) == (9, "none", 32)


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"topk": 9}, "topk"),
        ({"top_k": "many"}, "top_k"),
        ({"top_k": 0}, "top_k"),
        ({"engine": "qdrant"}, "qdrant.url"),
        ({"embedder": {"provider": "endpoint"}}, "embedder"),
        ({"collection": {"size": 512}}, "collection.size"),
        ({"model": {"url": "http://127.0.0.1:1/v1"}}, "model"),
        ({"model": {"key_variable": "no good"}}, "model.key_variable"),
        ("no JSON", "rag_config.json"),
    ],
)
def test_what_is_wrong_in_the_file_is_an_error_that_names_file_and_field(
    tmp_path: Path, content: object, field: str
) -> None:
    path = tmp_path / "rag_config.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InvalidSetting, match=r"rag_config\.json") as raised:
        read_config(path)
    assert field in str(raised.value)
    assert "remove the file" in str(raised.value)
