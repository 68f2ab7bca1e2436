"""Gauges over the latest while are made of what the counters have added since one window ago."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Metric
from prometheus_client.samples import Sample

from sluice.otel.metrics.exposition import DAY_SECONDS, RATE_SECONDS, STEP_SECONDS, Windows


class Counted:
    """Counters of an instance of its own, read by gauges with a clock of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.calls = Counter("sluice_search_calls_total", "Calls.", ["provider", "outcome"], registry=self.registry)
        self.usd = Counter("sluice_search_cost_usd_total", "Dollars.", ["provider"], registry=self.registry)
        self.pages = Counter("sluice_crawl_pages_total", "Pages.", ["outcome", "rendered"], registry=self.registry)
        self.now = 0.0
        self.windows = Windows(lambda: self.now)

    def read(self, name: str, after: float = 0.0) -> dict[str, float]:
        """The gauge's values by their one label, `after` seconds from now."""
        self.now += after
        return {next(iter(sample.labels.values()), ""): sample.value for sample in self._samples(name)}

    def _samples(self, name: str) -> Iterator[Sample]:
        families: list[Metric] = list(self.windows.gauges(self.registry.collect()))
        return (sample for family in families for sample in family.samples if sample.name == name)


ERRORS, SUCCESS, COST = (
    "sluice_external_search_error_rate",
    "sluice_crawler_success_rate",
    "sluice_external_search_cost_usd",
)


def test_the_error_rate_is_of_the_last_quarter_of_an_hour() -> None:
    counted = Counted()
    counted.calls.labels("brave", "ok").inc(3)
    counted.calls.labels("brave", "failed").inc(1)
    assert counted.read(ERRORS) == {"brave": 0.25}
    counted.calls.labels("brave", "ok").inc(1)
    assert counted.read(ERRORS, after=RATE_SECONDS) == {"brave": 0.0}


def test_a_provider_that_was_not_called_has_no_errors_and_is_shown() -> None:
    counted = Counted()
    counted.calls.labels("brave", "failed").inc(0)
    assert counted.read(ERRORS) == {"brave": 0.0}
    counted.calls.labels("brave", "failed").inc()
    assert counted.read(ERRORS, after=1) == {"brave": 1.0}
    assert counted.read(ERRORS, after=2 * RATE_SECONDS) == {"brave": 1.0}  # since the last visit, which was before
    assert counted.read(ERRORS, after=RATE_SECONDS) == {"brave": 0.0}


def test_what_a_rule_refused_is_no_failure_of_the_crawler() -> None:
    counted = Counted()
    assert counted.read(SUCCESS) == {}  # this process crawls nothing
    counted.pages.labels("refused", "false").inc(9)
    counted.pages.labels("ok", "true").inc(0)
    assert counted.read(SUCCESS, after=1) == {"": 1.0}
    counted.pages.labels("ok", "true").inc(2)
    counted.pages.labels("unchanged", "false").inc(1)
    counted.pages.labels("missed", "false").inc(1)
    assert counted.read(SUCCESS, after=1) == {"": 0.75}


def test_the_cost_is_of_a_day_and_its_history_is_bounded() -> None:
    counted = Counted()
    for _ in range(2_000):
        counted.usd.labels("brave").inc(0.001)
        counted.read(COST, after=STEP_SECONDS)
    [(_, dollars)] = counted.read(COST).items()
    assert abs(dollars - 0.001 * DAY_SECONDS / STEP_SECONDS) < 0.003
    assert len(counted.windows.kept) <= DAY_SECONDS / STEP_SECONDS + 2
