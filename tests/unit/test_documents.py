"""The documents name files that exist, link to pages that exist, and lead from the README to the deciding line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluice.gate import decide
from sluice.workers import handlers
from tests.support.repository import REPOSITORY

DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
CURRENT = [path for path in DOCUMENTS if path.name != "CHANGELOG.md"]
"""The changelog tells of files as they were."""
TOP = "api|bench|cli|contracts|deploy|docs|evaluation|gate|index|ingest|ledger|otel|tests|workers"


def _named(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize("document", CURRENT, ids=_named)
def test_every_file_that_a_document_names_exists(document: Path) -> None:
    named = re.findall(rf"`((?:{TOP})/[\w./-]*)`", document.read_text())
    assert [name for name in named if not (REPOSITORY / name).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=_named)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#|mailto:)([^)#]+)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_four_steps_lead_from_the_readme_to_the_line_that_decides_a_plan() -> None:
    steps = {
        "README.md": "ARCHITECTURE.md",
        "ARCHITECTURE.md": "tests/test_walk.py",
        "tests/test_walk.py": "workers/handlers.py",
        "workers/handlers.py": "gate.decide",
    }
    for page, following in steps.items():
        assert following in (REPOSITORY / page).read_text(), f"{page} does not lead to {following}"
    assert handlers.decide is decide.decide
    assert callable(decide.choose_plan)
