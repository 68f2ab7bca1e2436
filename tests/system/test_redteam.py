"""`sluice eval redteam` against a real instance: what is overt or hidden does not come through, and nothing is left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.redteam.__main__ import all_attacks, to_line
from sluice_client import SluiceClient
from tests.support.instance import Instance

pytestmark = pytest.mark.timeout(240)


def test_nothing_overt_or_hidden_comes_through_and_the_scratch_corpus_is_emptied(
    offline: Instance, tmp_path: Path
) -> None:
    attacks = tmp_path / "attacks.jsonl"
    attacks.write_text("".join(to_line(one) for one in all_attacks(payloads=2)))

    done = offline.sluice(
        "eval", "redteam", "--corpus", "redteam-test", "--attacks", str(attacks), "--json", timeout=220
    )

    told = json.loads(done.stdout)
    unmarked = {one["channel"]: one["examples"] for one in told["channels"] if one["is_overt"] and one["unmarked"]}
    assert unmarked == {}, done.stderr
    assert (done.returncode, told["good"]) == (0, True)
    assert sum(one["warned"] for one in told["channels"]) > 0
    with SluiceClient(offline.url) as client:
        assert list(client.quarantined("redteam-test")) == []


def test_a_corpus_that_may_hold_more_than_attacks_is_refused(offline: Instance) -> None:
    refused = offline.sluice("eval", "redteam", "--corpus", "default")
    assert refused.returncode == 2
    assert "redteam-" in refused.stderr
