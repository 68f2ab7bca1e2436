"""Writes the part of a prompt block about learnings: as observations with their source, never as rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sluice.contracts.memory.learning import FeatureLearning, LearningSource
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.recall.journal_search import search_journal, words_of
from sluice.memory.recall.last_iterations import ITERATIONS, PromptLine, PromptSection, Quote, standing_errors
from sluice.memory.recall.weigh import Ages, fared, in_order, weigh_learning

MAX_LEARNINGS = 12
MAX_CONFLICTS = 4
LEARNING_CHARACTERS = 500
LEAST_FARED = 0.25
"""What failed seven times and never helped is below it: recall finds it still, and no prompt is given it unasked."""
SAYS_NO_MORE = 2
"""Words beside those of an error, as in "it fails again: …"."""
TASK_GAIN = 1.2
"""For a learning of the very task."""
UNRELATED = 0.5
"""What the weight of a learning counts by that has nothing to do with the question or with the errors that stand."""


def tell_observations(
    state: FeatureMemory, quote: Quote, *, task_id: int | None, query: str
) -> tuple[PromptSection, PromptSection]:
    """Learnings, those first that bear on `query` and the standing errors, and pairs that contradict each other."""
    best = _best_first(state, task_id, query)
    offered = {one.id: one for one in best}
    disputed = list(dict.fromkeys(_pair(one, offered) for one in best if _pair(one, offered)))
    single = [one for one in best if not _pair(one, offered)]
    return (
        _section("Observed on this feature:", single, MAX_LEARNINGS, quote),
        _disagreements(disputed, offered, quote),
    )


def _best_first(state: FeatureMemory, task_id: int | None, query: str) -> list[FeatureLearning]:
    ages = Ages(state)
    standing = [one.error for one in standing_errors(in_order(state)[: -ITERATIONS - 1 : -1])]
    troubles = "\n".join(one.message for one in standing)
    on_query, on_troubles = (search_journal(state, text, task_id) for text in (query, troubles))

    def score(one: FeatureLearning) -> float:
        task = TASK_GAIN if task_id is not None and one.task_id == task_id else 1.0
        relevance = max(on_query.get(one.id, 0.0), on_troubles.get(one.id, 0.0))
        return (UNRELATED + relevance) * weigh_learning(one, ages) * task

    told = [(one.message, f"{one.message} {one.file_path} {one.tool}") for one in standing]
    errors = [({*words_of(message)}, {*words_of(line)}) for message, line in told]
    offered = [one for one in state.active(task_id) if _is_offered(one) and not _is_told(one, errors)]
    return sorted(offered, key=lambda one: (-score(one), one.id))


def _is_offered(one: FeatureLearning) -> bool:
    """What a person wrote or looked at sinks as others do, and is put out by nothing but a person."""
    return one.reviewed or one.source.priority >= LearningSource.HUMAN.priority or fared(one) >= LEAST_FARED


def _is_told(one: FeatureLearning, errors: Sequence[tuple[set[str], set[str]]]) -> bool:
    """Whether a learning that was made by rule only names an error (words of its message, of its line) that is told."""
    if one.source is not LearningSource.AUTO:
        return False
    words = {*words_of(one.text)}
    return any(message <= words and len(words - line) <= SAYS_NO_MORE for message, line in errors)


def _pair(one: FeatureLearning, offered: Mapping[str, FeatureLearning]) -> tuple[str, ...]:
    """The learning and those offered that contradict it, in the order of their ids; empty where there are none."""
    others = [other for other in one.conflicts_with if other in offered]
    return tuple(sorted((one.id, others[0]))) if others else ()


def _section(heading: str, learnings: list[FeatureLearning], limit: int, quote: Quote) -> PromptSection:
    lines: list[PromptLine] = []
    for position, one in enumerate(learnings):
        if len(lines) == limit:
            return PromptSection(heading, tuple(lines), left_out=len(learnings) - position)
        text = quote(one.text, LEARNING_CHARACTERS)
        if text:
            lines.append(PromptLine(f"{text} ({_provenance(one)}; verify before relying)", learning_ids=(one.id,)))
    return PromptSection(heading, tuple(lines))


def _disagreements(pairs: list[tuple[str, ...]], offered: Mapping[str, FeatureLearning], quote: Quote) -> PromptSection:
    lines: list[PromptLine] = []
    for pair in pairs[:MAX_CONFLICTS]:
        told = [(quote(offered[one].text, LEARNING_CHARACTERS), offered[one]) for one in pair]
        sides = " / ".join(f"{text} ({_provenance(one)})" for text, one in told if text)
        shown = tuple(one.id for text, one in told if text)
        if len(shown) > 1:
            lines.append(PromptLine(f"Observations disagree: {sides}; verify before relying", learning_ids=shown))
        elif shown:
            lines.append(PromptLine(f"{sides}; disputed, verify before relying", learning_ids=shown))
    return PromptSection("Undecided:", tuple(lines), left_out=2 * max(0, len(pairs) - MAX_CONFLICTS))


def _provenance(one: FeatureLearning) -> str:
    seen = f"seen in iteration {one.iteration}" if one.iteration else "written outside of iterations"
    return ", ".join((seen, *_details(one)))


def _details(one: FeatureLearning) -> Iterable[str]:
    if one.hit_count > 1:
        yield f"observed {one.hit_count} times"
    yield f"source {one.source}"
    if one.reviewed:
        yield "reviewed"
    if one.failed_again:
        yield f"did not help in {one.failed_again} iteration{'s' if one.failed_again > 1 else ''}"
