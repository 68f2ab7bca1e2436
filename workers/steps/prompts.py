"""The messages of a prompt that was asked for by name: of a run's answer, and of a direct query's result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sluice.contracts.plan import Plan
from sluice.contracts.prompt import PromptMessage
from sluice.contracts.retrieval import Query, Retrieval
from sluice.index.search.compose_answer import compose_answer
from sluice.trust.prompts.build import build, least_tokens
from sluice.trust.prompts.catalogue import template_named

if TYPE_CHECKING:
    from sluice.contracts.index import Answer

MOST_TOKENS = 200_000
"""As many as a query may state."""


def make_prompt(
    name: str, session: Sequence[PromptMessage], answer: Answer, max_tokens: int, count_tokens: Callable[[str], int]
) -> tuple[PromptMessage, ...]:
    """The conversation `session`, the answer's question at its end, with the answer's passages put into it.

    What is added has at most `max_tokens`, or what the template itself takes where that is more.

    Raises:
        InvalidInput: no such template; names `prompt` and those there are.
    """
    template = template_named(name)
    question = PromptMessage(role="user", content=answer.query)
    is_asked = bool(session) and (session[-1].role, session[-1].content) == (question.role, question.content)
    messages = session if is_asked else (*session, question)
    room = max(max_tokens, least_tokens(template, count_tokens))
    return build(messages, answer, template.full_name, room, count_tokens)


def with_prompt(found: Retrieval, query: Query, count_tokens: Callable[[str], int]) -> Retrieval:
    """The result of `query` with the prompt that it asks for; as it is where it asks for none.

    Raises:
        InvalidInput: as `make_prompt`.
    """
    if query.prompt is None:
        return found
    answer = compose_answer(query.query, query.corpus, Plan.RETRIEVE, found, MOST_TOKENS, count_tokens=count_tokens)
    room = query.max_tokens or MOST_TOKENS
    return found.model_copy(update={"prompt": make_prompt(query.prompt, (), answer, room, count_tokens)})
