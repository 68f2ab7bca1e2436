"""The red team's attacks: what is shipped, what a file may hold, and what is said of what came back."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.redteam.__main__ import all_attacks, to_line
from sluice.contracts.errors import InvalidInput
from sluice.trust.redteam import read_attacks, summarise_attacks


def test_the_attacks_that_are_shipped_are_those_that_the_bench_makes() -> None:
    """`python -m bench.redteam` writes them anew."""
    assert read_attacks() == tuple(all_attacks())


def test_a_line_that_is_no_attack_is_named(tmp_path: Path) -> None:
    file = tmp_path / "attacks.jsonl"
    file.write_text(to_line(next(all_attacks())) + '{"channel": "mail"}\n')
    with pytest.raises(InvalidInput, match=r"attacks\.jsonl:2"):
        read_attacks(file)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_attacks(tmp_path / "none.jsonl")


def test_only_what_is_overt_makes_a_report_bad() -> None:
    overt, covert = (next(one for one in read_attacks() if one.is_overt is told) for told in (True, False))
    assert summarise_attacks("redteam-x", [(overt, "warned"), (covert, "unmarked")]).good
    assert not summarise_attacks("redteam-x", [(overt, "unmarked")]).good
