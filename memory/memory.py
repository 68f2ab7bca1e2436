"""The memory of one project: what happened in an agent's iterations, what was learned, and what to tell it next.

    memory.record("auth", stream)                   # after an iteration: what was tried, and what came of it
    memory.prompt("auth").text                      # before the next one: what to know
    memory.recall("auth", "why does login fail")    # whenever it asks

Recording asks no model and no index: it extracts, sanitises and appends to the feature's journal. What is derived from
that (learnings, how they fared, the search index) follows when something is asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sluice.contracts.api import RunAccepted
from sluice.contracts.errors import InvalidInput
from sluice.contracts.memory.api import (
    MAX_ITERATION,
    IterationAccepted,
    IterationContext,
    LearningPatch,
    LearningResult,
    Learnings,
    MemoryProof,
    PromptBlock,
    RagStatus,
    Recall,
    StreamFormat,
)
from sluice.contracts.memory.learning import FeatureLearning, LearningSource, LearningState
from sluice.memory.config import RagConfig
from sluice.memory.extraction.extract import extract
from sluice.memory.extraction.files import is_stagnating
from sluice.memory.find import SearchIndex, cleaned, find, make_proof, make_status, rank
from sluice.memory.journal.entry import JournalEntry
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.journal.file import Journal
from sluice.memory.journal.read import features_in, read_journal
from sluice.memory.learning.add import Candidate, add_learning
from sluice.memory.learning.edit import patch_learning, prune, undo_repetition
from sluice.memory.ports import AskModel, JudgePair, Sanitise, SharedJournals
from sluice.memory.recall.prompt import make_prompt_block
from sluice.memory.solved import LOOKED_BACK as ITERATIONS_BEFORE
from sluice.memory.solved import sanitise_all, with_earlier, with_standing_errors
from sluice.memory.upkeep import FEW_ITERATIONS, Models, Upkeep, catch_up, count_new, transact_with

LOOKED_BACK = 200
"""Most iterations searched for stagnation: those that a limit on requests stopped are passed over."""
SANITISED_TEXTS = 2_048
"""Texts whose sanitised form is cached: a text that returns in each iteration is checked once."""
CLOCK_TOLERANCE = timedelta(days=1)
"""Most that the clock of another machine may be ahead of this one's."""
_UTC_NOW = partial(datetime.now, UTC)


def _check_number(number: int) -> None:
    """Raise `InvalidInput` for a number that would stay the last one whatever is recorded after it."""
    if number > MAX_ITERATION:
        raise InvalidInput("iteration_number", f"is above {MAX_ITERATION:,}", "count the iterations of the loop from 1")


def estimate_tokens(text: str) -> int:
    """Return about the tokens that a model counts: a third of the bytes, rather too many for English and code."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 3)


class Memory:
    """A `MemoryPort` of journals under `folder`. Safe for threads and for several processes.

    `search` is the index; without it, and while it is away, recall compares words with the journal itself. `judge` and
    `ask` are models that help to tell learnings apart and to distil them; if one fails, rules decide. `derives`: the
    consequences of new iterations are derived before a question is answered; else `derive` or `catch_up` is called.
    `upkeep` does the background work for which no question may wait. `shared` is where other machines remember too.
    """

    def __init__(
        self,
        folder: Path,
        project_path: str,
        *,
        sanitise: Sanitise,
        search: SearchIndex | None = None,
        judge: JudgePair | None = None,
        ask: AskModel | None = None,
        count_tokens: Callable[[str], int] = estimate_tokens,
        clock: Callable[[], datetime] = _UTC_NOW,
        config: RagConfig | None = None,
        derives: bool = True,
        upkeep: Upkeep | None = None,
        shared: SharedJournals | None = None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder = folder
        self.project_path = project_path
        self.where = str(folder)
        self.config = config or RagConfig()
        self._sanitise = lru_cache(SANITISED_TEXTS)(sanitise)
        self._search = search
        self._models = Models(judge, ask, self.config.model.model or "")
        self._count_tokens = count_tokens
        self._clock = clock
        self._derives = derives
        self._upkeep = upkeep or Upkeep()
        self._shared = shared
        self._on_close = on_close
        self._journals: dict[str, Journal] = {}
        self._opening = threading.Lock()

    def record(
        self,
        feature: str,
        data: str | bytes | dict[str, Any] | list[Any],
        *,
        format: StreamFormat = "auto",
        context: IterationContext | None = None,
    ) -> IterationAccepted:
        """See `MemoryPort.record`."""
        journal = self.journal(feature)
        now = self._clock()
        context = context or IterationContext()
        found = extract(data, format=format, feature=feature, project_path=self.project_path, context=context, now=now)
        _check_number(found.iteration_number)
        if found.timestamp > now + CLOCK_TOLERANCE:  # it too would stay the last one
            raise InvalidInput("timestamp", "lies more than a day ahead", "give the time at which the iteration ended")
        clean = sanitise_all(found.to_record(found.iteration_number, stagnating=False), self._sanitise)

        def decide(state: FeatureMemory) -> list[JournalEntry]:
            number = found.iteration_number if found.is_numbered else state.next_iteration()
            last = [one.record for one in islice(reversed(state.iterations.values()), LOOKED_BACK)][::-1]
            stagnating = is_stagnating(clean.effect_sha256, last, repeats=self.config.stagnation_repeats)
            told = with_earlier(clean, [one.record for one in state.in_order()[-ITERATIONS_BEFORE:]])
            return [JournalEntry.new(told.model_copy(update={"iteration_number": number, "stagnating": stagnating}))]

        entry_id = JournalEntry.new(clean).id
        state, new = journal.transact(decide)
        record = state.iterations[entry_id].record
        return IterationAccepted(entry_id=entry_id, is_new=bool(new), record=record, stagnating=record.stagnating)

    def catch_up(self, feature: str) -> list[JournalEntry]:
        """Derive the consequences of new iterations: learnings, and the success of earlier ones.

        Returns the new entries. A model is called before the journal is locked, never meanwhile.
        """
        return self._catch_up(self.journal(feature))

    def derive(self, feature: str) -> None:
        """Catch up if new iterations are few, else in the background."""
        journal = self.journal(feature)
        new = count_new(journal.read())
        if 0 < new <= FEW_ITERATIONS:
            self._catch_up(journal)
        elif new:
            self._upkeep.do(f"catch up {feature}", lambda: self._catch_up_a_little(journal))

    def learn(
        self,
        feature: str,
        text: str,
        reason: str,
        source: LearningSource = LearningSource.AGENT,
        iteration: int = 0,
        task_id: int | None = None,
    ) -> LearningResult:
        """See `MemoryPort.learn`."""
        at = self._clock()
        results: list[LearningResult] = []

        def decide(state: FeatureMemory, models: Models) -> list[JournalEntry]:
            candidate = Candidate(text, reason, source, iteration, task_id)
            result, entries = add_learning(state, candidate, compare=models.compare, sanitise=self._sanitise, at=at)
            results.append(result)
            return entries

        state, _ = transact_with(self._models, self.journal(feature), decide)
        result = results[-1]
        if result.learning is None:
            return result
        return result.model_copy(update={"learning": state.learnings.get(result.learning.id, result.learning)})

    def patch(self, feature: str, learning_id: str, change: LearningPatch) -> FeatureLearning:
        """See `MemoryPort.patch`."""
        at = self._clock()

        def decide(state: FeatureMemory, models: Models) -> list[JournalEntry]:
            return patch_learning(state, learning_id, change, compare=models.compare, sanitise=self._sanitise, at=at)

        state, _ = transact_with(self._models, self.journal(feature), decide)
        return state.learnings[learning_id]

    def undo(self, feature: str, entry_id: str) -> list[FeatureLearning]:
        """See `MemoryPort.undo`."""
        at = self._clock()
        state, new = self.journal(feature).transact(lambda state: undo_repetition(state, entry_id, at=at))
        return [state.learnings[one.body.learning.id] for one in new if one.body.kind == "learning"]

    def prune(self, feature: str) -> list[FeatureLearning]:
        """See `MemoryPort.prune`."""
        at = self._clock()
        before = self.journal(feature).read()
        state, _ = self.journal(feature).transact(lambda state: prune(state, at))
        changed = (one for name, one in state.learnings.items() if one.state is LearningState.PRUNED)
        return [one for one in changed if before.learnings.get(one.id) != one]

    def learnings(
        self, feature: str, *, task_id: int | None = None, state: LearningState | None = LearningState.ACTIVE
    ) -> Learnings:
        """See `MemoryPort.learnings`."""
        journal = self.journal(feature)
        self._derive(feature)
        held = journal.read()
        found = [
            one
            for one in held.learnings.values()
            if state in (None, one.state) and (task_id is None or one.task_id in (None, task_id))
        ]
        to_review = (one.id for one in found if not one.reviewed and self._sanitise(one.text).is_harmful)
        return Learnings(learnings=tuple(found), conflicts=tuple(held.conflicts), to_review=tuple(to_review))

    def recall(self, feature: str, query: str, top_k: int | None = None, task_id: int | None = None) -> Recall:
        """See `MemoryPort.recall`."""
        started = time.perf_counter()
        journal = self.journal(feature)
        self._derive(feature)
        state = journal.read()
        wanted = self.config.top_k if top_k is None else top_k
        hits, behind = find(self._search, self.project_path, state, query, top_k=wanted, task_id=task_id)
        results = cleaned(rank(state, hits, query, top_k=wanted, task_id=task_id), self._sanitise)
        return Recall(
            project=self.project_path,
            feature=feature,
            query=query,
            results=tuple(results),
            searched=hits.searched if hits else "journal",
            behind=behind,
            duration_ms=1e3 * (time.perf_counter() - started),
        )

    def prompt(
        self,
        feature: str,
        *,
        iteration_number: int | None = None,
        session_id: str | None = None,
        task_id: int | None = None,
        query: str = "",
        max_tokens: int | None = None,
        records: bool = True,
    ) -> PromptBlock:
        """See `MemoryPort.prompt`. Without `records` nothing is written, and echoes of the block are not recognised.

        Nothing is written either where the same block was printed for this iteration and session before.
        """
        _check_number(iteration_number or 1)
        journal = self.journal(feature)
        if records:
            self._derive(feature)
        state = journal.read()
        if not state.entry_ids:
            return PromptBlock(text="", tokens=0)
        blocks: list[PromptBlock] = []

        def decide(state: FeatureMemory) -> list[JournalEntry]:
            block, entry = make_prompt_block(
                with_standing_errors(state),
                iteration_number=iteration_number or state.next_iteration(),
                session_id=session_id,
                task_id=task_id,
                query=query,
                max_tokens=max_tokens or self.config.max_prompt_tokens,
                count_tokens=self._count_tokens,
                sanitise=self._sanitise,
                now=self._clock(),
            )
            blocks.append(block)
            return [entry] if block.text and entry.id not in state.entry_ids else []

        if decide(state) and records:
            journal.transact(decide)
        return blocks[-1]

    def journal(self, feature: str) -> Journal:
        """Return the journal of a feature. The states that it returns must not be changed."""
        with self._opening:
            if feature not in self._journals:
                self._journals[feature] = Journal(self.folder, feature, shared=self._shared)
            return self._journals[feature]

    def export(self, feature: str) -> Iterator[str]:
        """See `MemoryPort.export`."""
        self.journal(feature).complete()
        return (one.to_json_line() for one in read_journal(self.journal(feature).path).entries)

    def features(self) -> list[str]:
        """See `MemoryPort.features`."""
        return self._shared.features() if self._shared else features_in(self.folder)

    def status(self) -> RagStatus:
        """See `MemoryPort.status`."""
        return make_status([self.journal(name) for name in self.features()], self._search)

    def rebuild(self, feature: str | None = None) -> tuple[RunAccepted, ...]:
        """Fill the index. `status` and `prove` report what it still lacks, as when the embedding model is away."""
        if self._search is not None:
            for name in self.features() if feature is None else [feature]:
                self._search.follow(self.journal(name).read(), wholly=True)
        return ()

    def prove(self, feature: str) -> MemoryProof:
        """See `MemoryPort.prove`."""
        return make_proof(self.journal(feature), self._search, self.project_path)

    def drop_orphans(self) -> tuple[str, ...]:
        """See `MemoryPort.drop_orphans`."""
        return () if self._search is None else self._search.drop_orphans(tuple(self.features()))

    def close(self) -> None:
        """Close the index, and stop the background work. The journals need no closing."""
        self._upkeep.close()
        self._on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _derive(self, feature: str) -> None:
        if self._derives:
            self.derive(feature)

    def _catch_up_a_little(self, journal: Journal) -> bool:
        self._catch_up(journal, seconds=0)
        return count_new(journal.read()) > 0

    def _catch_up(self, journal: Journal, seconds: float | None = None) -> list[JournalEntry]:
        return catch_up(journal, self._models, sanitise=self._sanitise, at=self._clock(), seconds=seconds)
