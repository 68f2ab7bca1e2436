"""`sluice up` asks again for what is due at the time that the settings say, once for all processes of an instance."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import text

from sluice.workers.processes.watches.corpora import FreshnessSchedule
from tests.support.aging_site import CORPUS, CRAWL, AgingSite, grow_old
from tests.support.in_process import Instance, MakeInstance
from tests.support.site import Site


@pytest.fixture
def instance(make_instance: MakeInstance, site: Site) -> Instance:
    return make_instance(crawl=CRAWL, egress={"allow": [site.address]}, freshness={"every_hours": 6})


def let_the_lease_run_out(instance: Instance) -> None:
    with instance.context.ledger.database.writing() as connection:
        connection.execute(text("UPDATE leases SET until = 0"))


def crawls(instance: Instance) -> int:
    return len(instance.context.ledger.runs(corpus=CORPUS))


def test_what_is_due_is_asked_for_once_each_time(instance: Instance, make_instance: MakeInstance, site: Site) -> None:
    aging = AgingSite(site, instance, 2)
    aging.crawl_all()
    grow_old(instance, timedelta(days=31))
    schedules = [FreshnessSchedule(instance.context) for _ in range(2)]
    for _ in range(3):
        for schedule in schedules:
            schedule.look()
    assert crawls(instance) == 2, "one beside the first crawl, whichever process looked and however often"
    aging.works()
    let_the_lease_run_out(instance)
    schedules[0].look()
    assert crawls(instance) == 2, "nothing is due any more"


def test_a_recheck_that_is_under_way_is_not_begun_again(instance: Instance, site: Site) -> None:
    AgingSite(site, instance, 2).crawl_all()
    grow_old(instance, timedelta(days=31))
    schedule = FreshnessSchedule(instance.context)
    for _ in range(2):
        schedule.look()
        let_the_lease_run_out(instance)
    assert crawls(instance) == 2


@pytest.mark.parametrize(
    ("settings", "is_on"),
    [
        ({}, False),
        ({"freshness": {"every_hours": 1}}, False),
        ({"freshness": {"every_hours": 1}, "crawl": {"enabled": True}}, True),
    ],
)
def test_it_is_off_until_the_settings_want_it_and_crawling_is_allowed(
    make_instance: MakeInstance, settings: dict[str, object], is_on: bool
) -> None:
    assert FreshnessSchedule(make_instance(**settings).context).is_on == is_on


def test_where_the_day_leaves_no_room_nothing_is_begun_and_nothing_breaks(
    instance: Instance, make_instance: MakeInstance, site: Site
) -> None:
    AgingSite(site, instance, 2).crawl_all()
    grow_old(instance, timedelta(days=31))
    poor = make_instance(
        crawl=CRAWL, egress={"allow": [site.address]}, freshness={"every_hours": 1}, budget={"day_pages": 2}
    )
    FreshnessSchedule(poor.context).look()
    assert crawls(instance) == 1, "the first one, which took the two pages that the day has"
