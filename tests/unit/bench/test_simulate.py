"""The simulation agrees with what is known exactly: Erlang C, M/D/1, Little's law, and nothing lost on the way."""

from __future__ import annotations

import math
import random
from functools import partial

import pytest

from bench.simulate.pipeline import Pipeline, Step, World, fan_out, percentile
from bench.simulate.simulation import Action, Clock, Ledger, Processors, Station

SECONDS = 40_000.0
"""Long enough that means are within the tolerances below for the seeds used."""


def fed_station(servers: int, per_second: float, draw: partial[float] | Action, seconds: float = SECONDS) -> Station:
    """A station after `seconds` of random arrivals, each served for `draw()` seconds."""
    clock, generator = Clock(), random.Random(7)
    station = Station(clock, servers)

    def serve(leave: Action) -> None:
        clock.after(draw(), leave)  # type: ignore[arg-type]

    def arrive() -> None:
        station.enter(serve)
        clock.after(generator.expovariate(per_second), arrive)

    clock.after(0.0, arrive)
    clock.run(seconds)
    return station


def erlang_c(servers: int, offered: float) -> float:
    """Probability that one who comes has to wait, of M/M/c with `offered` erlangs."""
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return last / (sum(terms) + last)


@pytest.mark.parametrize(("servers", "offered"), [(1, 0.7), (4, 3.2), (20, 17.0)])
def test_waits_of_m_m_c_are_those_of_erlang_c(servers: int, offered: float) -> None:
    generator = random.Random(3)
    station = fed_station(servers, offered, partial(generator.expovariate, 1.0))
    expected = erlang_c(servers, offered) / (servers - offered)
    assert station.waited_seconds / station.left == pytest.approx(expected, rel=0.08)
    assert station.utilisation() == pytest.approx(offered / servers, rel=0.03)


def test_waits_of_m_d_1_are_half_of_those_of_m_m_1() -> None:
    station = fed_station(1, 0.8, lambda: 1.0)
    assert station.waited_seconds / station.left == pytest.approx(0.8 / (2 * (1 - 0.8)), rel=0.05)


def test_processor_sharing_takes_one_over_one_minus_the_load() -> None:
    clock, generator, taken = Clock(), random.Random(5), list[float]()
    processors = Processors(clock, 1.0)

    def arrive() -> None:
        processors.work(generator.expovariate(1.0), lambda came: taken.append(clock.now - came), clock.now)
        clock.after(generator.expovariate(0.6), arrive)

    clock.after(0.0, arrive)
    clock.run(SECONDS)
    assert sum(taken) / len(taken) == pytest.approx(1 / (1 - 0.6), rel=0.08)


@pytest.mark.parametrize(("jobs", "seconds"), [(1, 1.0), (2, 1.25), (4, 2.5)])
def test_two_processors_share_what_they_gain_together(jobs: int, seconds: float) -> None:
    clock, ended = Clock(), list[float]()
    processors = Processors(clock, 2.0, gain=1.6)
    for _ in range(jobs):
        processors.work(1.0, lambda: ended.append(clock.now))
    clock.run()
    assert ended == pytest.approx([seconds] * jobs)


def test_a_ledger_slows_down_by_what_is_not_cleaned_up() -> None:
    def settled(**bloat: float) -> float:
        clock = Clock()
        ledger = Ledger(clock, 1_000.0, **bloat)

        def again() -> None:
            ledger.settle(10, again)

        again()
        clock.run(100.0)
        return ledger.settled / 100.0

    assert settled() == pytest.approx(1_000, rel=0.01)
    assert settled(other_per_second=200) == pytest.approx(800, rel=0.01)
    assert settled(dead_each=1, cleaned_per_second=2_000, slowed_by=1_000) == pytest.approx(1_000, rel=0.02)
    kept_up = settled(dead_each=1, cleaned_per_second=500, slowed_by=10_000)
    assert 500 < kept_up < 900, "it ends at the rate at which it is cleaned"


TRACES = tuple(
    (Step("crawl", 0.2, 0.05), Step("embed", 0.0, size), Step("index", 0.01, 0.0), Step("index", 0.0, 0.04, True))
    for size in (0.3, 0.6, 0.9)
)


def test_little_s_law_holds_in_each_queue_and_nothing_is_lost() -> None:
    world = World(TRACES, {"crawl": 4, "embed": 3, "index": 1}, ledger_per_second=50, failures={"crawl": 0.1})
    pipeline = Pipeline(world, seed=1)
    pipeline.submit_at_rate(3.0)
    pipeline.clock.run(4_000)
    assert pipeline.ledger.settled == pytest.approx(sum(s.left for s in pipeline.stations.values()), abs=20)
    for name, station in {**pipeline.stations, "ledger": pipeline.ledger.station}.items():
        by_little = station.entered / pipeline.clock.now * station.sojourn_seconds / station.left
        assert station.mean_inside() == pytest.approx(by_little, rel=0.02), name
    inside = pipeline.submitted - len(pipeline.cited) - pipeline.parked
    assert 0 <= inside < 100
    assert pipeline.parked / pipeline.submitted == pytest.approx(0.1**3, rel=0.6)


def test_the_slowest_stage_bounds_what_gets_through() -> None:
    for workers, bound in ((2, 2 / 0.6), (5, 5 / 0.6), (40, 1 / 0.05)):
        pipeline = Pipeline(World(TRACES, {"crawl": 100, "embed": workers, "index": 1}), seed=2)
        pipeline.keep_inside(200)
        pipeline.clock.run(600)
        assert len(pipeline.cited) / 600 >= 0.9 * bound
        assert len(pipeline.cited) / 600 <= 1.1 * bound or workers == 40, "one generation may publish many"


def test_batches_get_through_as_single_documents_do() -> None:
    rates, quick = list[float](), Step("index", 0.0005, 0.0)
    traces = [(*trace[:2], quick, Step("index", 0.0005, 0.0, publishes=True)) for trace in TRACES]
    for batch in (1, 20):
        world = World(traces, {"crawl": 400, "embed": 300, "index": 40}, ledger_per_second=1_500, batch=batch)
        pipeline = Pipeline(world, seed=3)
        pipeline.keep_inside(4_000 // batch)
        pipeline.clock.run(120)
        rates.append(len(pipeline.cited) * batch / 120)
    assert rates[1] == pytest.approx(rates[0], rel=0.06)
    with pytest.raises(ValueError, match="index"):
        Pipeline(World(TRACES, {"crawl": 400, "embed": 300, "index": 1}, batch=20), seed=3)


def test_a_host_s_turns_bound_the_crawl() -> None:
    world = World(TRACES, {"crawl": 100, "embed": 100, "index": 1}, hosts=3, turns_per_second=0.5)
    pipeline = Pipeline(world, seed=4)
    pipeline.keep_inside(200)
    pipeline.clock.run(1_000)
    assert len(pipeline.cited) / 1_000 == pytest.approx(1.5, rel=0.1)


def test_the_same_seed_gives_the_same_figures() -> None:
    def run(seed: int) -> list[tuple[float, float]]:
        pipeline = Pipeline(World(TRACES, {"crawl": 2, "embed": 1, "index": 1}, cores=2.0), seed)
        pipeline.submit_at_rate(1.0)
        pipeline.clock.run(100)
        return pipeline.cited

    assert run(1) == run(1) != run(2)


def test_a_query_of_all_shards_takes_the_longest_of_them() -> None:
    seconds = [at / 1_000 for at in range(1, 1_001)]
    one, hundred = (fan_out(seconds, shards, 2_000, seed=1) for shards in (1, 100))
    assert percentile(one, 0.5) == pytest.approx(0.5, rel=0.1)
    assert percentile(hundred, 0.5) == pytest.approx(0.5 ** (1 / 100), rel=0.01)


def test_what_others_take_of_the_processors_slows_every_job_from_then_on() -> None:
    clock, ended = Clock(), list[float]()
    processors = Processors(clock, 2.0)
    for _ in range(2):
        processors.work(1.0, lambda: ended.append(clock.now))
    clock.after(0.5, processors.take, 1.0)
    clock.run()
    assert ended == pytest.approx([1.5, 1.5])
