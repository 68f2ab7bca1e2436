"""A taste of the browser's deaths; the whole is `python -m tests.chaos.browser`."""

from __future__ import annotations

import pytest

from tests.chaos.browser.kills import render_with_kills
from tests.support.browser_world import world_with_a_browser


@pytest.mark.smoke
@pytest.mark.timeout(300)
def test_pages_among_random_kills_leave_no_process() -> None:
    world_with_a_browser().close()
    outcome = render_with_kills(pages=6, seed=7)
    assert outcome.orphans == ()
    assert outcome.kills > 0
    assert outcome.rendered + outcome.failed == 6
