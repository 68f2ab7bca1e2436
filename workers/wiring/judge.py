"""The judges of the settings, with what they need of this process: the way out, and what no outside service may see.

The RAGAS bridge judges by the `ragas` package where it and a judge are there, else by support.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sluice.evaluation.chat_endpoint import ChatEndpoint, JudgeSettings
from sluice.evaluation.ragas.bridge import RagasBridge
from sluice.evaluation.ragas.environment import FOLDER, AnsweredQuestion, RagasScore, find_python, judge_answers

if TYPE_CHECKING:
    import httpx2

    from sluice.evaluation.ragas.bridge import Embed
    from sluice.ingest.egress.proxy import EgressProxy
    from sluice.workers.settings import Settings


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


MOST_USD_AT_ONCE = 1.0
"""What judging may take in one go where no ceiling of the day is set."""


def build_ragas(
    settings: Settings, embed: Embed, egress: Callable[[], EgressProxy], hide: Callable[[str], str], *, enabled: bool
) -> RagasBridge:
    """The bridge. `hide` masks what no outside service may see; `embed` gets the texts as they are."""
    python = find_python(settings.data_dir / FOLDER)
    if python is None or settings.judge.model is None:
        return RagasBridge(embed, enabled=enabled)

    def judge(answers: Sequence[AnsweredQuestion]) -> Sequence[RagasScore]:
        hidden = [
            AnsweredQuestion(hide(one.query), tuple(map(hide, one.passages)), hide(one.response)) for one in answers
        ]
        return judge_answers(python, settings.judge, egress().url_for("judge"), hidden, most_tokens(settings)).scores

    return RagasBridge(embed, judge, enabled=enabled)


def most_tokens(settings: Settings) -> int:
    """The tokens that judging may take in one go: what a day's ceiling pays for."""
    usd = MOST_USD_AT_ONCE if settings.budget.day_usd is None else settings.budget.day_usd
    price = max(settings.judge.usd_per_million_tokens, 0.01)
    return int(usd / price * 1e6)
