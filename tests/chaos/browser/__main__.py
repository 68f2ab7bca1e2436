"""A browser whose processes die: `python -m tests.chaos.browser [--pages N] [--seed N] [--json FILE]`.

Pages are rendered one after another while processes of their browser are killed at random. Every page ends with its
text or with an error by name, and no process is left. Prints a table and ends with 1 when the check failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.browser.kills import render_with_kills
from tests.chaos.report import Result, print_table


def main(arguments: Sequence[str] | None = None) -> int:
    """Render the pages; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.browser", description=__doc__)
    parser.add_argument("--pages", type=int, default=500, help="how many are rendered")
    parser.add_argument("--seed", type=int, default=1, help="of what is killed, and when")
    parser.add_argument("--json", type=Path, help="write the result there")
    asked = parser.parse_args(arguments)
    result = killed_browser(asked.pages, asked.seed)
    print_table([result])
    if asked.json:
        asked.json.write_text(json.dumps([result.as_json()], indent=1))
    return 0 if result.passed else 1


def killed_browser(pages: int, seed: int) -> Result:
    """The check as one line of the table: something was killed, most pages were read, no process is left."""
    started = time.monotonic()
    outcome = render_with_kills(pages=pages, seed=seed)
    return Result(
        check="browser killed",
        done=f"{pages} pages rendered, a random process killed under two of five",
        limit="half of the pages rendered, 0 orphans",
        passed=outcome.kills > 0 and outcome.rendered >= pages // 2 and not outcome.orphans,
        figures={
            "kills": outcome.kills,
            "rendered": outcome.rendered,
            "failed by name": outcome.failed,
            "orphans": len(outcome.orphans),
        },
        problems=outcome.orphans,
        seconds=time.monotonic() - started,
    )


if __name__ == "__main__":
    sys.exit(main())
