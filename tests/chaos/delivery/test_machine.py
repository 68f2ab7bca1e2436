"""The state machine's short form, and the proof that it sees: no law is broken, and every planted bug breaks one.

The whole is `machine.any_order`.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest

from tests.chaos.delivery.machine import Store, broken_by, caught, in_memory, on_postgres, quiet
from tests.chaos.delivery.machine_bugs import BUGS
from tests.chaos.delivery.machine_stories import STORIES, Story
from tests.chaos.delivery.machine_world import World

pytestmark = pytest.mark.timeout(600)

SEED = 2
SEQUENCES = 150
ON_POSTGRES = 8
REACHED = ("transactions", "seams", "deaths", "suspects", "fenced", "ghosts", "probes", "replays", "cancellations")
"""What a short run must have come by, or it would prove nothing about it."""


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with quiet(), in_memory() as ledgers:
        yield ledgers


@pytest.fixture
def world(store: Store) -> World:
    return store.world()


def test_no_order_of_what_can_happen_breaks_a_law(store: Store) -> None:
    seen = Counter[str]()
    assert broken_by(store, SEQUENCES, SEED, seen) == []
    assert [what for what in REACHED if not seen[what]] == []


@pytest.mark.postgres
def test_no_order_breaks_one_on_postgresql(postgresql_cluster: str) -> None:
    name = f"machine_{secrets.token_hex(6)}"
    with psycopg.connect(postgresql_cluster, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    with quiet(), on_postgres(f"{postgresql_cluster}?options=-csearch_path%3D{name}") as ledgers:
        assert broken_by(ledgers, ON_POSTGRES, SEED, Counter()) == []


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(store: Store, bug: str) -> None:
    assert caught(store, bug, SEED) is not None


@pytest.mark.parametrize("story", STORIES, ids=[story.__name__ for story in STORIES])
def test_what_broke_a_law_once_breaks_none(world: World, story: Story) -> None:
    story(world)
    world.heal()
