"""Weighs learnings by the outcomes of the iterations whose prompts held them.

Being recalled proves nothing: a learning that was shown gains weight from that iteration only if the agent used it and
the iteration succeeded. The rules:

- *used*: the iteration changed a file that the learning names; or at least half of the words by which the learning
  differs from the rest of its block (two at least) stand in the agent's own text: its summary and its decisions,
  without sentences that only repeat the block.
- *helped*: used, and the outcome is Success; at most once per session of the agent.
- *failed_again*: the iteration did not succeed, and met again an error of an earlier one that the learning is about:
  it names the message or the test, or half of its words stand in the message.

`hit_count` counts observations, and is not changed here.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Sequence
from datetime import datetime

from sluice.contracts.memory.learning import FeatureLearning
from sluice.contracts.memory.model import ErrorEntry, ErrorType, FileAction, IterationOutcome, IterationRecord
from sluice.memory.journal.entry import BlockPrinted, JournalEntry, LearningWeighed
from sluice.memory.journal.feature_memory import FeatureMemory, RecordedIteration
from sluice.memory.learning.echo import only_repeats_words
from sluice.memory.learning.observations import fingerprint
from sluice.memory.learning.wording import one_line
from sluice.memory.recall.journal_search import words_of

LEAST_WORDS = 2
USED_SHARE = 0.5
SHORTEST_QUOTED = 100
"""Characters of a message that each learning made by rule on its error quotes at least."""
ITERATIONS_BEFORE = 5
"""An error is met again if one of so many iterations before had met it."""
_SENTENCE_END = re.compile(r"(?<=[.;!?])\s+|\n+")


def weigh(state: FeatureMemory, at: datetime) -> list[JournalEntry]:
    """Return an entry for each learning of an iteration's prompt, for iterations that were not weighed before."""
    blocks = _Blocks(state)
    weighed = {entry_id for _, entry_id in state.weighed}
    order = state.in_order()
    entries: list[JournalEntry] = []
    for position, one in enumerate(order):
        if one.entry_id in weighed:
            continue
        helped = one.record.outcome is IterationOutcome.SUCCESS
        for learning in blocks.shown_in(one):
            used = is_used(learning, one.record, blocks.of(one))
            body = LearningWeighed(
                learning_id=learning.id,
                entry_id=one.entry_id,
                used=used,
                helped=helped and used and not blocks.helped_before(learning, order[:position], one),
                failed_again=not helped and failed_again(learning, one, order[:position]),
            )
            entries.append(JournalEntry.of(body, key=f"{learning.id}\0{one.entry_id}", at=at))
    return entries


def is_used(learning: FeatureLearning, record: IterationRecord, blocks: Sequence[BlockPrinted]) -> bool:
    """Return whether the agent's text or changes show that it used a learning of its prompt."""
    changed = (one.path for one in record.files_touched if one.action is not FileAction.READ)
    if any(_names(learning.text, path) for path in changed):
        return True
    lines = [line for block in blocks for line in block.lines]
    others = {word for line in lines if learning.text not in line for word in words_of(line)}
    words = set(words_of(learning.text))
    words = words - others if len(words - others) >= LEAST_WORDS else words
    decisions = (part for one in record.decisions for part in (one.description, one.rationale) if part)
    own = {
        word
        for text in (record.summary, *decisions)
        for sentence in _SENTENCE_END.split(text)
        if not only_repeats_words(sentence, lines)
        for word in words_of(sentence)
    }
    return len(words & own) >= max(LEAST_WORDS, USED_SHARE * len(words))


def failed_again(learning: FeatureLearning, one: RecordedIteration, before: Sequence[RecordedIteration]) -> bool:
    """Return whether an iteration met an error again that the learning is about."""
    about = [error for error in one.record.errors if is_about(learning, error)]
    if not about:
        return False
    met: set[Hashable] = {fingerprint(error) for each in before[-ITERATIONS_BEFORE:] for error in each.record.errors}
    return any(fingerprint(error) in met for error in about)


def is_about(learning: FeatureLearning, error: ErrorEntry) -> bool:
    """Return whether a learning names an error by its message or its test, or half of its words stand in the message.

    One that names only the file says nothing of the other errors of that file.
    """
    test, colon, _ = error.message.rpartition("::")[2].partition(":")
    if colon and error.error_type is ErrorType.TEST and _names(learning.text, test):
        return True
    words, message = set(words_of(learning.text)), set(words_of(one_line(error.message, SHORTEST_QUOTED)))
    shared = len(words & set(words_of(error.message)))
    return shared >= LEAST_WORDS and (message <= words or shared >= USED_SHARE * len(words))


class _Blocks:
    """The blocks of a feature, by the iteration whose prompt held them."""

    def __init__(self, state: FeatureMemory) -> None:
        self._learnings = state.learnings
        self._sessions = {one.record.session_id for one in state.iterations.values()} - {None}
        self._by_number: dict[int, list[BlockPrinted]] = defaultdict(list)
        for block in state.printed:
            if block.learning_ids:
                self._by_number[block.iteration_number].append(block)

    def of(self, one: RecordedIteration) -> list[BlockPrinted]:
        """Return the blocks of the iteration's number, without those printed for another session that has iterations.

        A loop may name its sessions otherwise than the agent does in its output: such a name decides nothing.
        """
        session = one.record.session_id
        of_number = self._by_number.get(one.record.iteration_number, [])
        return [each for each in of_number if each.session_id == session or each.session_id not in self._sessions]

    def shown_in(self, one: RecordedIteration) -> list[FeatureLearning]:
        ids = dict.fromkeys(each for block in self.of(one) for each in block.learning_ids)
        return [self._learnings[each] for each in ids if each in self._learnings]

    def helped_before(
        self, learning: FeatureLearning, before: Sequence[RecordedIteration], one: RecordedIteration
    ) -> bool:
        """Return whether the learning helped in an earlier iteration of the same session of the agent."""
        session = one.record.session_id
        return session is not None and any(
            each.record.session_id == session
            and each.record.outcome is IterationOutcome.SUCCESS
            and any(learning.id in block.learning_ids for block in self.of(each))
            and is_used(learning, each.record, self.of(each))
            for each in before
        )


def _names(text: str, path: str) -> bool:
    """Return whether a text names a file, with its folders or by its last part alone, or a test."""
    name = path.rsplit("/", 1)[-1]
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text) is not None


NEWEST_GAIN = 0.25
"""Gain of the last iteration over a very old one."""
HALF_LIFE_ITERATIONS = 20.0
OUTCOME_WEIGHTS = {
    IterationOutcome.SUCCESS: 1.0,
    IterationOutcome.FAILURE: 1.0,
    IterationOutcome.PARTIAL: 0.9,
    IterationOutcome.TIMEOUT: 0.8,
    IterationOutcome.RATE_LIMITED: 0.6,
}
"""Success and failure are both worth knowing; an iteration that was cut short knows less."""
PRIORITY_GAIN = 0.05
"""Gain for each step from `Auto` to `OpusReviewed`."""
REVIEWED_GAIN = 0.05
DOUBLED_HITS_GAIN = 0.05
"""Gain for each doubling of the independent observations, four times at most."""
MOST_DOUBLINGS = 4
HELPED_GAIN = 0.3
"""Largest gain, for a learning that helped each time. One that failed each time falls towards 0 instead."""
CONFLICT_WEIGHT = 0.8
"""Factor for a learning from which a near one differs."""


class Ages:
    """Counts the iterations since a moment."""

    def __init__(self, state: FeatureMemory) -> None:
        self._moments = state.moments

    def since(self, moment: datetime) -> int:
        """Return the number of iterations after `moment`: 0 for the last iteration and anything later."""
        return max(0, len(self._moments) - bisect_right(self._moments, moment))


def recency(age: int) -> float:
    """Return a factor between 1 + `NEWEST_GAIN` (now) and 1 (long ago)."""
    return 1.0 + NEWEST_GAIN * math.pow(2.0, -age / HALF_LIFE_ITERATIONS)


def weigh_record(one: RecordedIteration, ages: Ages) -> float:
    """Return the weight of an iteration."""
    return recency(ages.since(one.record.timestamp)) * OUTCOME_WEIGHTS[one.record.outcome]


def weigh_learning(learning: FeatureLearning, ages: Ages) -> float:
    """Return the weight of a learning."""
    source = 1.0 + PRIORITY_GAIN * learning.source.priority + REVIEWED_GAIN * learning.reviewed
    observed = 1.0 + DOUBLED_HITS_GAIN * min(MOST_DOUBLINGS, math.log2(learning.hit_count))
    rate = fared(learning)
    helped = min(rate, 1.0) + HELPED_GAIN * max(0.0, rate - 1.0)
    disputed = CONFLICT_WEIGHT if learning.conflicts_with else 1.0
    return recency(ages.since(learning.timestamp)) * source * observed * helped * disputed


def fared(learning: FeatureLearning) -> float:
    """Return a learning's success where it was shown: Laplace's rule of succession, times 2.

    2 (helped + 1) / (helped + failed_again + 2) is 1 at the beginning, always below 2, and falls towards 0 if the
    errors that the learning is about come back again and again.
    """
    return 2.0 * (learning.helped + 1) / (learning.helped + learning.failed_again + 2)
