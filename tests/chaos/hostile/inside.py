"""One check in a world of its own: started by `tests.chaos.hostile.world.run_inside`, never by hand."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.chaos.hostile.kills import killed_browsers
from tests.chaos.hostile.rebinding import changing_names
from tests.chaos.hostile.ssrf import inner_addresses, inner_addresses_unguarded
from tests.chaos.hostile.world import World
from tests.chaos.hostile.zoo import zoo
from tests.chaos.report import Result

Check = Callable[..., Iterable[Result]]

CHECKS: dict[str, Check] = {
    "ssrf": inner_addresses,
    "ssrf-unguarded": inner_addresses_unguarded,
    "rebinding": changing_names,
    "zoo": zoo,
    "kills": killed_browsers,
}


def main() -> None:
    """Run the check and write its results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=CHECKS)
    parser.add_argument("report", type=Path)
    parser.add_argument("--short", action="store_true")
    asked = parser.parse_args()
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        with World(Path(folder)) as world:
            for result in CHECKS[asked.name](world, short=asked.short):
                results.append(result)
                asked.report.write_text(json.dumps([one.as_json() for one in results]))


if __name__ == "__main__":
    main()
