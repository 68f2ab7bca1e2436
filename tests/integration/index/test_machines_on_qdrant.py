"""Machines whose corpora are in Qdrant: the owner of the journal fills it, and the others read it, without a journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sluice.contracts.errors import Fenced, StoreDown
from sluice.contracts.retrieval import Query, Strategy
from tests.support.in_process import Instance
from tests.support.loopback_qdrant import serving
from tests.support.valkey import Valkey
from tests.support.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")

Machines = tuple[Instance, Instance]


@pytest.fixture
def machines(valkey: Valkey, tmp_path: Path) -> Iterator[Machines]:
    with ExitStack() as opened:
        qdrant = opened.enter_context(serving())
        shared: dict[str, Any] = {
            "ledger_url": f"sqlite:///{tmp_path}/ledger.sqlite",
            "broker_url": valkey.settings.broker_location,
            "object_store": {"url": (tmp_path / "store").as_uri()},
            "index": {"engine": "qdrant"},
            "qdrant": {"url": qdrant.url},
        }
        made = [Instance(valkey, {**shared, "data_dir": tmp_path / name}) for name in ("a", "b")]
        for one in made:
            one.context.index_owner.waits_for_turn = True
            opened.callback(one.close)
        yield made[0], made[1]


def indexes(instance: Instance, *texts: str) -> None:
    instance.adds(*texts)
    instance.works("chunk", "embed", "index")


def found(instance: Instance, text: str) -> list[str]:
    reader = instance.context.readers.existing("default")
    return [one.text for one in reader.retrieve(Query(query=text, strategy=Strategy.BM25)).chunks]


def test_a_machine_without_a_journal_lists_and_searches_the_corpora(machines: Machines) -> None:
    first, second = machines
    assert second.context.readers.names() == ()
    assert first.context.index_owner.take()
    indexes(first, "Leases are renewed.", "A valve opens.")
    readers = second.context.readers
    assert not (second.context.settings.index_root / "default" / "journal").is_dir()
    until(lambda: readers.exists("default"))  # what runs have written elsewhere is known a second later
    assert (readers.exists("other"), readers.names()) == (False, ("default",))
    assert found(second, "valve") == ["A valve opens."]
    assert not second.context.truth.problems()
    with pytest.raises(Fenced), second.context.writers.writing("default"):
        pass


def test_another_owner_goes_on_where_the_one_before_ended(machines: Machines) -> None:
    """What searches see is in the shipped journal, whenever the owner burns."""
    first, second = machines
    assert first.context.index_owner.take()
    indexes(first, "Leases are renewed.", "A valve opens.")
    generation = second.context.readers.reader("default").generation
    first.context.index_owner.lose("burnt")
    first.context.ledger.index.give_up(first.context.ledger.index.owner())
    first.context.writers.close_wanted(every=True)
    assert second.context.index_owner.take()
    assert second.context.readers.reader("default").generation == generation
    indexes(second, "Leases are not renewed.")
    assert found(first, "leases valve") == ["A valve opens.", "Leases are not renewed."]
    with second.context.writers.writing("default") as writer:
        assert writer.rebuild().is_proven


def test_nothing_is_searched_that_the_store_does_not_have(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = machines
    assert first.context.index_owner.take()
    indexes(first, "Leases are renewed.")

    def down(corpus: str, *, alone: bool = False) -> None:
        raise StoreDown("the object store is away")

    with first.context.writers.writing("default") as writer:
        writer.remove(["doc-0"])
        monkeypatch.setattr(writer, "_ship", lambda: down("default"))
        with pytest.raises(StoreDown):
            writer.publish()
    assert found(second, "leases") == ["Leases are renewed."]
