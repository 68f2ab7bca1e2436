"""Who decides a flag, and how a process reads it."""

from __future__ import annotations

import pytest

from sluice.contracts.errors import InvalidSetting, NotFound, Unavailable
from sluice.contracts.learning.control import FlagName
from sluice.ledger.learning.flags import StoredFlag
from sluice.otel.metrics import FLAG_CHANGES, FLAG_ENABLED, UNKNOWN_FLAGS
from sluice.workers.processes.watches.gate import FlagWatch
from sluice.workers.runtime.flags import DEFAULTS, NAMES, FlagReader, resolve
from sluice.workers.service.learning.control import known_flag
from sluice.workers.setting_names import FLAG_VARIABLES, read_flags
from sluice.workers.settings import load_settings
from tests.support.ledger_story import Clock
from tests.support.metric import value_of

ON, OFF, KILLED = StoredFlag("search", True), StoredFlag("search", False), StoredFlag("search", True, killed=True)


class Store:
    """The flags that are stored, and how often they were read."""

    def __init__(self, **stored: StoredFlag) -> None:
        self.stored = stored
        self.reads = 0
        self.is_down = False

    def __call__(self) -> dict[str, StoredFlag]:
        self.reads += 1
        if self.is_down:
            raise Unavailable("the ledger does not answer")
        return dict(self.stored)


def reader(
    store: Store,
    clock: Clock,
    environment: dict[FlagName, bool] | None = None,
    policy: dict[FlagName, str] | None = None,
) -> FlagReader:
    return FlagReader(store, environment or {}, policy or {}, clock=clock)


@pytest.mark.parametrize(
    ("stored", "environment", "policy", "expected"),
    [
        (KILLED, True, False, (False, "kill_switch")),
        (KILLED, True, True, (False, "kill_switch")),
        (ON, True, True, (False, "policy")),
        (OFF, True, False, (True, "environment")),
        (ON, False, False, (False, "environment")),
        (OFF, None, False, (False, "stored")),
        (ON, None, False, (True, "stored")),
        (StoredFlag("search"), None, False, (True, "default")),
        (None, None, False, (True, "default")),
    ],
)
def test_kill_switch_before_policy_before_environment_before_stored_before_default(
    stored: StoredFlag | None, environment: bool | None, policy: bool, expected: tuple[bool, str]
) -> None:
    said: dict[FlagName, bool] = {} if environment is None else {"search": environment}
    state = resolve("search", stored, said, {"search": "web search is switched off"} if policy else {})
    assert (state.enabled, state.decided_by) == expected


def test_every_flag_has_a_default_and_a_variable_and_what_stood_before_stays_on_with_the_graph() -> None:
    assert set(NAMES) == set(DEFAULTS) == set(FLAG_VARIABLES)
    assert {name for name, is_on in DEFAULTS.items() if is_on} == {
        "gate_weights",
        "search",
        "crawl",
        "hybrid",
        "rerank",
        "graph",
    }
    assert (FLAG_VARIABLES["hybrid"], FLAG_VARIABLES["ragas"]) == ("FEATURE_HYBRID_RETRIEVAL", "FEATURE_RAGAS_EVAL")


def test_the_environment_is_read_by_the_seeds_names_and_a_word_that_is_neither_is_an_error() -> None:
    said = read_flags({"FEATURE_HYBRID_RETRIEVAL": "False", "FEATURE_RAGAS_EVAL": "1", "FEATURE_SEARCH": ""})
    assert said == {"hybrid": False, "ragas": True}
    with pytest.raises(InvalidSetting, match=r"FEATURE_CRAWL.*'maybe' is neither true nor false"):
        read_flags({"FEATURE_CRAWL": "maybe"})


def test_what_is_read_is_a_second_old_at_most_and_now_where_it_must_be() -> None:
    clock, store = Clock(), Store()
    flags = reader(store, clock)
    assert flags.enabled("search")
    store.stored["search"] = OFF
    clock.passes(0.9)
    assert (flags.enabled("search"), store.reads) == (True, 1)
    assert not flags.enabled_now("search")
    assert not flags.enabled("search")
    store.stored.clear()
    clock.passes(1.1)
    assert (flags.enabled("search"), store.reads) == (True, 3)


def test_without_its_ledger_nothing_is_guessed() -> None:
    clock, store = Clock(), Store(search=OFF)
    flags = reader(store, clock)
    store.is_down = True
    with pytest.raises(Unavailable):
        flags.enabled("search")
    with pytest.raises(Unavailable):
        flags.switched_off("run_1")


def test_a_decision_records_what_somebody_switched_off_and_not_what_policy_or_default_say() -> None:
    store = Store(learned_gate=StoredFlag("learned_gate", False), rerank=StoredFlag("rerank", True, killed=True))
    flags = reader(store, Clock(), {"hybrid": False, "ragas": True}, {"search": "web search is switched off"})
    assert flags.switched_off("run_1") == ("hybrid", "rerank", "learned_gate")
    assert not flags.enabled("search")
    assert flags.enabled("ragas")


def test_an_unknown_flag_is_no_flag_and_is_counted() -> None:
    before = value_of(UNKNOWN_FLAGS)
    with pytest.raises(NotFound, match="no flag 'telepathy'"):
        known_flag("telepathy")
    assert value_of(UNKNOWN_FLAGS) == before + 1


def test_the_gauge_shows_every_flag() -> None:
    flags = reader(Store(search=OFF), Clock())
    flags.states()
    assert (value_of(FLAG_ENABLED, flag="search"), value_of(FLAG_ENABLED, flag="crawl")) == (0.0, 1.0)


def test_changes_are_counted_by_one_who_looks_now_and_then() -> None:
    store = Store()
    watch = FlagWatch(reader(store, Clock()))
    before = {to: value_of(FLAG_CHANGES, flag="ragas", to=to) for to in ("on", "off")}
    watch.look()
    store.stored["ragas"] = StoredFlag("ragas", True)
    watch.look()
    watch.look()
    store.stored.clear()
    watch.look()
    assert {to: value_of(FLAG_CHANGES, flag="ragas", to=to) - before[to] for to in before} == {"on": 1.0, "off": 1.0}


def test_no_process_begins_with_a_variable_that_is_neither_true_nor_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEATURE_SEARCH", "perhaps")
    with pytest.raises(InvalidSetting, match="FEATURE_SEARCH"):
        load_settings()


def test_a_share_of_the_runs_has_a_flag_drawn_by_their_ids_and_a_greater_share_keeps_them() -> None:
    def having(share: float) -> set[str]:
        flags = FlagReader(lambda: {"graph": StoredFlag("graph", enabled=True, share=share)}, {}, {})
        assert [state.share for state in flags.states() if state.name == "graph"] == [share]
        return {f"run_{number}" for number in range(2_000) if "graph" not in flags.switched_off(f"run_{number}")}

    tenth, half = having(0.1), having(0.5)
    assert tenth < half
    assert having(0.5) == half
    assert 150 < len(tenth) < 250
    assert 930 < len(half) < 1_070


def test_a_share_counts_only_where_the_stored_value_decides() -> None:
    stored = {"graph": StoredFlag("graph", enabled=True, share=0.5)}
    held_off = FlagReader(lambda: stored, {"graph": False}, {})
    assert all("graph" in held_off.switched_off(f"run_{number}") for number in range(20))
    held_on = FlagReader(lambda: stored, {"graph": True}, {})
    assert not any("graph" in held_on.switched_off(f"run_{number}") for number in range(20))
