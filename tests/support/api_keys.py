"""API keys for tests of the HTTP interface."""

from __future__ import annotations

from starlette.testclient import TestClient

from sluice.ledger.ledger import Ledger
from sluice.workers.service.callers import ApiKeys


def bearer(http: TestClient, role: str, *corpora: str) -> dict[str, str]:
    """The header of a new key, known to the interface at once."""
    ledger: Ledger = http.app.state.instance.context.ledger  # type: ignore[attr-defined]
    _, key = ApiKeys(ledger).create("of a test", role, corpora)  # type: ignore[arg-type]
    http.app.state.instance.keys = ApiKeys(ledger)  # type: ignore[attr-defined] # forgets what it had read
    return {"Authorization": f"Bearer {key}"}
