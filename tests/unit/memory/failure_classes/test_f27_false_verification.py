"""F27, false verification: `reviewed` says that somebody looked, and nothing says that a learning is true."""

import json
import re
from pathlib import Path

import sluice.contracts.memory
import sluice.memory
from sluice.contracts.memory.learning import FeatureLearning
from tests.support.memory.feature import Feature, error

_SAYS_SO = re.compile(r"(?<!be )(?<!not )(?<!never )\bverified\b(?!\")", re.IGNORECASE)
_CLAIM = re.compile(r"\bverified\b|\bis_true\b|\bproven\b", re.IGNORECASE)


def test_f27_no_field_of_a_learning_claims_that_it_is_verified() -> None:
    assert "reviewed" in FeatureLearning.model_fields
    assert not _CLAIM.search(
        json.dumps(FeatureLearning.model_json_schema()["properties"]).replace("never that it is true", "")
    )


def test_f27_no_rule_reviews_what_it_learned() -> None:
    feature = Feature()
    for number in (1, 2, 3):
        feature.record(number, errors=(error("E1: bad", "src/a.py"),))
    feature.distil()
    assert feature.learnings
    for one in feature.learnings:
        assert not one.reviewed
        assert not _CLAIM.search(one.text + one.reason)


def test_f27_no_text_that_memory_makes_says_verified() -> None:
    """Looked for in the strings of the packages: what a prompt or an answer says comes from there."""
    for package in (sluice.memory, sluice.contracts.memory):
        for path in Path(package.__path__[0]).rglob("*.py"):
            for said in re.findall(r"\"[^\"\n]*\"", path.read_text(encoding="utf-8")):
                assert not _SAYS_SO.search(said) or "(?:" in said, (path, said)
