"""The short form where RabbitMQ carries the wake-ups: a taste of every harm, and nothing lost, nothing doubled."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import kombu
import pytest

from tests.chaos.delivery.instance import BLAMELESS, ChaosInstance
from tests.chaos.delivery.matrix import carry_out
from tests.chaos.delivery.rabbit import HARMS, INSTANCE, suffer
from tests.chaos.delivery.short_form import BROKEN, HUNG, KILLED, ends_well
from tests.chaos.delivery.site import Site
from tests.chaos.delivery.truth import count
from tests.chaos.delivery.work import Work
from tests.support.rabbitmq import RabbitMq
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory, site: Site, rabbitmq: RabbitMq) -> Iterator[ChaosInstance]:
    settings = {**site.settings(), **BLAMELESS, "WAKE_UP_URL": rabbitmq.url}
    with ChaosInstance(tmp_path_factory.mktemp("chaos"), settings) as running:
        yield running


def test_undisturbed_work_goes_by_rabbitmq_and_loses_nothing(instance: ChaosInstance, site: Site) -> None:
    work = Work(instance, "calm", site.address)
    work.mixed(range(20))
    ends_well(work)
    with instance.broker() as valkey:
        assert [
            key for key in valkey.scan_iter() if key.decode().startswith((f"{INSTANCE}:taken", f"{INSTANCE}:crawl"))
        ] == []


@pytest.mark.parametrize(
    "wave", [pytest.param(BROKEN, id="exception"), pytest.param(KILLED, id="kill"), pytest.param(HUNG, id="hang")]
)
def test_faults_at_failpoints_lose_nothing_and_double_nothing(
    instance: ChaosInstance, site: Site, wave: object
) -> None:
    found = carry_out(instance, site, wave, f"wave-{wave[0].fault}")
    assert found.problems == ()
    assert found.fired == {str(cell) for cell in wave}


@pytest.mark.parametrize("harm", HARMS)
def test_whatever_befalls_it_nothing_is_lost_and_nothing_doubled(
    instance: ChaosInstance, site: Site, rabbitmq: RabbitMq, harm: str
) -> None:
    work = Work(instance, f"rabbit-{harm}", site.address)
    suffer(work, rabbitmq, [harm] * (3 if harm in ("worker", "purge") else 1), random.Random(1))
    ends_well(work)


def test_garbage_becomes_dead_letters_and_ends_no_process(instance: ChaosInstance, rabbitmq: RabbitMq) -> None:
    before, bodies = instance.processes, (b"", b"\xff\xfe", b"null", b"[" * 10_000, b"\x80\x04\x95.", b"x" * 100_000)
    letters = "SELECT count(*) FROM dead_letters WHERE reason IN ('malformed', 'unroutable')"
    kept = count(instance.ledger_url, letters)
    stages = ("crawl", "chunk", "embed", "query", "index")
    with kombu.Connection(rabbitmq.url) as connection:
        channel = connection.default_channel
        for stage in stages:
            for number, body in enumerate(bodies):
                headers = ({"task": b"\xff"}, {"eta": "x", "task": "rm"}, {"n": 2**40}, {}, None)[number % 5]
                message = channel.prepare_message(body, headers=headers, content_type="application/x-python-serialize")
                channel.basic_publish(message, INSTANCE, f"{stage}.permit")
    until(lambda: count(instance.ledger_url, letters) >= kept + len(stages) * len(bodies))
    time.sleep(2)
    assert count(instance.ledger_url, letters) == kept + len(stages) * len(bodies)
    work = Work(instance, "beside-garbage")
    work.mixed(range(10))
    ends_well(work)
    assert instance.processes == before
