"""What an operator may turn of trust, guard and private data."""

from __future__ import annotations

from contracts.base import Value


class TrustSettings(Value):
    """Whom to trust, and what to do with what is not."""
