"""Without the libraries of the extra `crawl` everything else imports, and what needs them says what to do."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.support.repository import REPOSITORY

BLOCKED = """
import importlib.util, json, pkgutil, sys

MISSING = ("playwright", "ddgs")


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocker())
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in MISSING else found(name, package)
"""


def told(script: str) -> object:
    """What a script prints as JSON in an interpreter that lacks these libraries."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", BLOCKED + script],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_all_of_ingest_but_the_browser_is_imported_without_them() -> None:
    assert (
        told("""
import sluice.ingest
for one in pkgutil.walk_packages(sluice.ingest.__path__, "sluice.ingest."):
    if not one.name.startswith("sluice.ingest.browser."):
        importlib.import_module(one.name)
print(json.dumps([name for name in sys.modules if name.partition(".")[0] in MISSING]))
""")
        == []
    )


def test_a_crawler_is_built_without_a_browser_and_its_lack_names_the_command() -> None:
    assert told("""
from sluice.workers.wiring.crawler import NO_BROWSER
print(json.dumps(str(NO_BROWSER)))
""") == ("playwright is not installed: pip install 'sluice[crawl]' brings it")


def test_public_search_pages_name_the_command() -> None:
    assert told("""
from sluice.contracts.errors import NotInstalled
from sluice.ingest.search.ddgs import open_engines
try:
    open_engines("http://127.0.0.1:1")
except NotInstalled as error:
    print(json.dumps(str(error)))
""") == ("ddgs is not installed: pip install 'sluice[crawl]' brings it")
