"""The judge of the settings, with what it needs of this process: the way out, and what no outside service may see."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sluice.evaluation.chat_endpoint import ChatEndpoint
from sluice.evaluation.settings import JudgeSettings

if TYPE_CHECKING:
    import httpx2

    from sluice.ingest.egress.proxy import EgressProxy


def build_judge(
    settings: JudgeSettings, egress: Callable[[], EgressProxy], hide: Callable[[str], str]
) -> ChatEndpoint | None:
    """The configured judge; None where no model is named. Opens nothing before it is asked.

    Its requests obey the rules of egress, for the purpose `judge`. `hide` masks what no endpoint may see.
    """
    if settings.model is None:
        return None

    def connect() -> httpx2.Client:
        import httpx2

        return httpx2.Client(proxy=egress().url_for("judge"), trust_env=False, timeout=settings.timeout_seconds)

    return ChatEndpoint(settings, connect, hide)
