"""Builds the messages for a language model from a conversation and an answer's passages.

    the conversation's own system messages
    system       the template's rules, and the answer's limits where its confidence is low
    (examples)
    …            the conversation so far, as it is
    user         the passages, each in its envelope, then the question

Passages go with the question and not into the system message: a system message has the most authority, and passages are
the words of others. The random part of the delimiters is drawn for each prompt.

The templates are data files in `trust/prompts/templates`, each with its version in its name. A published version never
changes: a better text is the next one. A test compares each prompt with a golden file.
"""

from __future__ import annotations

import math
import re
import secrets
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from sluice.contracts.base import Value
from sluice.contracts.errors import InvalidInput, InvalidSetting, first_problem
from sluice.contracts.index import NO_TEXT, Answer, Citation
from sluice.contracts.plan import Plan
from sluice.contracts.profiles import PassageInsights
from sluice.contracts.retrieval import PromptMessage, RetrievedChunk
from sluice.text.passage import on_one_line, show_passage
from sluice.text.words import estimate_tokens
from sluice.trust.confidence import LIMITED_BELOW

TEMPLATES_DIR = Path(__file__).parent / "templates"
NONCE = "{nonce}"
"""Placeholder in a template for the random part of the delimiters."""
_STEM = re.compile(r"([a-z][a-z0-9_]*)\.v([1-9][0-9]*)")


class Example(Value):
    """A question with its passages, and the expected answer."""

    question: str
    answer: str


class Template(Value):
    """A prompt: the system message, and examples as question and answer. `extends` prepends another template."""

    name: str
    version: int
    summary: str
    system: str
    examples: tuple[Example, ...] = ()
    extends: str | None = None

    @property
    def full_name(self) -> str:
        """Name and version, such as `rag.v1`."""
        return f"{self.name}.v{self.version}"


@lru_cache(maxsize=1)
def templates() -> Mapping[str, Template]:
    """Return every template by its full name, in order of name and version.

    Raises `InvalidSetting` if a file has a field that does not fit, or extends an unknown template.
    """
    files = {path.stem: path for path in TEMPLATES_DIR.glob("*.toml")}
    found = [_load(stem, files) for stem in files]
    return {one.full_name: one for one in sorted(found, key=lambda one: (one.name, one.version))}


def template_named(name: str, field: str = "prompt") -> Template:
    """Return the template of that name: `rag.v1`, or the latest version of `rag`.

    Raises `InvalidInput`, which names `field` and the known templates, if there is none.
    """
    known = templates()
    found = [one for one in known.values() if name in (one.name, one.full_name)]
    if not found:
        short = dict.fromkeys(one.name for one in known.values())
        raise InvalidInput(field, f"no prompt {name!r}", f"one of {', '.join([*short, *known])}")
    return found[-1]


def _load(stem: str, files: Mapping[str, Path]) -> Template:
    named = _STEM.fullmatch(stem)
    if named is None:
        raise InvalidSetting(f"prompts.{stem}", "a template's file is called NAME.vNUMBER.toml", "rename it")
    try:
        own = Template.model_validate(
            {"name": named[1], "version": int(named[2]), **tomllib.loads(files[stem].read_text("utf-8"))}
        )
    except ValidationError as error:
        raise InvalidSetting(f"prompts.{stem}.{first_problem(error)[0]}", first_problem(error)[1]) from error
    own = own.model_copy(update={"system": own.system.strip(), "examples": tuple(map(_stripped, own.examples))})
    if own.extends is None:
        return own
    if own.extends not in files:
        raise InvalidSetting(f"prompts.{stem}.extends", f"no template {own.extends!r}")
    below = _load(own.extends, files)
    update = {"system": f"{below.system}\n\n{own.system}", "examples": (*below.examples, *own.examples)}
    return own.model_copy(update=update)


def _stripped(example: Example) -> Example:
    return Example(question=example.question.strip(), answer=example.answer.strip())


CountTokens = Callable[[str], int]

TOKENS_PER_MESSAGE = 4
"""Tokens that chat formats add to each message for its role."""
MOST_LIMITS_CHARACTERS = 600
_NONCE_BYTES = 8
_NONCE = re.compile(r"[0-9A-Za-z]{8,64}")
_NOTHING_FOUND = (
    "No passage was found that answers the question. Say that nothing was found; do not answer from memory."
)
_NOTHING_FITS = "Passages were found, but none fits the token budget. Say that you were given none."


def build(
    messages: Sequence[PromptMessage],
    answer: Answer,
    template: str = "rag",
    max_tokens: int | None = None,
    count_tokens: CountTokens = estimate_tokens,
    nonce: str | None = None,
) -> tuple[PromptMessage, ...]:
    """Return the conversation `messages` with the passages of `answer` inserted by a template of the catalogue.

    The question is the last message if it is the user's, else `answer.query`. `max_tokens` bounds the added rules,
    examples and passages; passages are taken in their order while they fit, and shorter ones may follow one that does
    not. With a `nonce` (8 to 64 letters and digits) the result is always the same; otherwise one is drawn. Authors of
    documents must not know it. Where the gate saw no need to search (plan `skip`) nothing is added: rules on passages
    would keep a model from answering a greeting.

    Raises `InvalidInput` for an unknown template, an unusable nonce, or if `max_tokens` has no room for the rules.
    """
    chosen = template_named(template, "template")
    if nonce is None:
        nonce = secrets.token_hex(_NONCE_BYTES)
    elif not _NONCE.fullmatch(nonce):
        raise InvalidInput("nonce", "8 to 64 letters and digits are needed", "leave it out: one is drawn")
    if answer.plan is Plan.SKIP:
        return _put_together(messages, answer.query, (), ())
    rules = _rules(chosen, answer, nonce)
    left = None if max_tokens is None else max_tokens - _cost(rules, count_tokens)
    passages = _passages(answer, nonce, left, count_tokens)
    if answer.citations and not passages:
        rules[0] = _system(f"{rules[0].content}\n\n{_NOTHING_FITS}")
    least = _cost(rules, count_tokens)
    if max_tokens is not None and least > max_tokens:
        problem = f"{max_tokens} tokens have no room for the rules of {chosen.full_name}"
        raise InvalidInput("max_tokens", problem, f"{least} or more")
    return _put_together(messages, answer.query, rules, passages)


def least_tokens(template: Template, count_tokens: CountTokens = estimate_tokens) -> int:
    """Return the least `max_tokens` that `build` accepts for a template, with any limits of the answer."""
    texts = [template.system, *(part for one in template.examples for part in (one.question, one.answer))]
    filled = [text.replace(NONCE, "0123456789abcdef") for text in texts]
    reserve = estimate_tokens(_NOTHING_FOUND + _NOTHING_FITS) + MOST_LIMITS_CHARACTERS // 2
    return sum(count_tokens(text) + TOKENS_PER_MESSAGE for text in filled) + reserve


def _rules(template: Template, answer: Answer, nonce: str) -> list[PromptMessage]:
    parts = [template.system.replace(NONCE, nonce), _limits(answer, nonce)]
    if not answer.citations:
        parts.append(_NOTHING_FOUND)
    rules = [_system("\n\n".join(part for part in parts if part))]
    for example in template.examples:
        rules.append(PromptMessage(role="user", content=example.question.replace(NONCE, nonce)))
        rules.append(PromptMessage(role="assistant", content=example.answer.replace(NONCE, nonce)))
    return rules


def _limits(answer: Answer, nonce: str) -> str:
    """Return the text on low confidence or known limits of the answer; empty where there is neither."""
    is_low = answer.confidence is not None and answer.confidence < LIMITED_BELOW
    if not is_low and not answer.limits:
        return ""
    told = [f"Confidence: {math.floor(100 * answer.confidence)}%." if answer.confidence is not None else ""]
    if answer.limits:
        told.append(f"Limits: {_without(on_one_line(answer.limits, MOST_LIMITS_CHARACTERS), nonce)}")
    told.append("State these limits in your answer." if answer.limits else "State the limits of your answer.")
    return " ".join(part for part in told if part)


def _passages(answer: Answer, nonce: str, left: int | None, count_tokens: CountTokens) -> list[str]:
    chosen: list[str] = []
    for citation, chunk in zip(answer.citations, answer.chunks, strict=True):
        passage = render_passage(citation, chunk, nonce)
        if left is not None:
            cost = count_tokens(f"{passage}\n\n")
            if cost > left:  # even if `left` is negative: then none fits
                continue
            left -= cost
        chosen.append(passage)
    return chosen


def _put_together(
    messages: Sequence[PromptMessage], query: str, rules: Sequence[PromptMessage], passages: Sequence[str]
) -> tuple[PromptMessage, ...]:
    ends_with_user = bool(messages) and messages[-1].role == "user"
    before = messages[:-1] if ends_with_user else messages
    question = messages[-1].content if ends_with_user else query
    own = next((place for place, message in enumerate(before) if message.role != "system"), len(before))
    asked = PromptMessage(role="user", content="\n\n".join([*passages, question]))
    return (*map(_plain, before[:own]), *rules, *map(_plain, before[own:]), asked)


def _plain(message: PromptMessage) -> PromptMessage:
    """Return a plain message, without the fields of a subclass."""
    return PromptMessage(role=message.role, content=message.content)


def _system(content: str) -> PromptMessage:
    return PromptMessage(role="system", content=content)


def _cost(messages: Sequence[PromptMessage], count_tokens: CountTokens) -> int:
    return sum(count_tokens(message.content) + TOKENS_PER_MESSAGE for message in messages)


MOST_PATH_CHARACTERS = 300
"""Most characters of the path by which the graph led to a passage."""
_REMOVED = "�"


def render_passage(citation: Citation, chunk: RetrievedChunk, nonce: str) -> str:
    """Return the passage with its source in the first line, in the form that the templates describe."""
    notes = []
    if citation.graph_path:
        notes.append(f"via {on_one_line(citation.graph_path, MOST_PATH_CHARACTERS)}")
    if citation.code:
        why = "; ".join(map(on_one_line, citation.code.why))
        told = citation.code.policy.replace("_", " ") + (f" ({why})" if why else "")
        notes.append(f"Code: not executed. Policy for running it: {told}.")
    if citation.insights:
        notes += [f"Note: {on_one_line(note)}" for note in _notes(citation.insights)]
    shown = _without(show_passage(citation, chunk, NO_TEXT, notes), nonce)
    return f"=== passage {nonce} ===\n{shown}\n=== end {nonce} ==="


def _notes(insights: PassageInsights) -> list[str]:
    """Return the notes that a writer needs before repeating a passage: its disclosure, and unproven claims."""
    notes = []
    if insights.disclosure:
        notes.append(f"commercial content, its disclosure is {insights.disclosure.status}: {insights.disclosure.text}")
    notes += [
        f'claim that needs proof ({claim.rule}): "{claim.text}"; needed: {claim.needs}' for claim in insights.claims
    ]
    return notes


def _without(text: str, nonce: str) -> str:
    return re.sub(re.escape(nonce), _REMOVED, text, flags=re.IGNORECASE)
