"""An index worker that is killed anywhere while it tells answers of changed pages tells each of them once all the same."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.integration.pipeline.killed_indexer import WORKER
from tests.support.aging_site import CRAWL, AgingSite
from tests.support.in_process import MakeInstance
from tests.support.repository import REPOSITORY
from tests.support.site import Site

POINTS = [
    f"{method}.{side}"
    for method in ("uncheck_citations", "unchecked_citations", "pass_citations", "tell_stale", "settle")
    for side in ("before", "after")
] + ["append.after", "remove.after", "publish.after"]


@pytest.mark.parametrize("point", POINTS)
def test_each_answer_is_told_exactly_once(make_instance: MakeInstance, site: Site, point: str) -> None:
    instance = make_instance(crawl=CRAWL, egress={"allow": [site.address]})
    aging = AgingSite(site, instance, 3)
    aging.crawl_all()
    changed, gone, kept = [aging.ask(0, 1), aging.ask(0, 1)], [aging.ask(1, 0)], [aging.ask(0, 2), aging.ask(2, 1)]
    aging.rewrite(0, section=1)
    aging.remove(1)
    aging.direct_recheck()
    instance.works("crawl", "chunk", "embed")
    instance.context.writers.close()  # the worker that is killed takes the corpus over
    data_dir = str(instance.context.settings.data_dir)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.integration.pipeline.killed_indexer", data_dir, point],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    instance.context.ledger.release(WORKER)
    instance.works("index")
    assert [aging.stale(one) for one in changed] == [[(1, "changed", aging.url(0))]] * 2
    assert [aging.stale(one) for one in gone] == [[(1, "gone", aging.url(1))]]
    assert [aging.stale(one) for one in kept] == [[], []]
    for run_id in (*changed, *gone):
        kinds = [event.kind for _, event in instance.context.ledger.events_after(run_id)]
        assert kinds.count("AnswerStale") == 1
