"""The index against a dictionary: whatever happens in whatever order, it holds what a dictionary would hold.

Documents arrive (new, changed, the same again, without chunks) and go; generations are published, rolled back,
rebuilt; writers are closed, reopened under other settings, and killed, between calls and inside them; one reader
lives through all of it. After every look ids, texts, counts, facts, both arms and every filter must agree with the
dictionary of the generation that is served; after every death all that was acknowledged must come back.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from sluice.contracts.document import ChunkedDocument
from sluice.contracts.errors import NotFound
from sluice.contracts.retrieval import Filters, Strategy
from sluice.index.folder import CorpusLayout
from sluice.index.generations.manifest import parse_generation_number
from sluice.index.generations.publish import list_generations, rollback, verify
from sluice.index.journal.records import make_facts
from sluice.index.local.working_set import WritePolicy
from tests.chaos.index.corpus import CORPUS, PUBLISHED_ONLY, WITH_RECENT, Holding, after, passages
from tests.chaos.index.model_inputs import DOCUMENTS, EVERYTHING, FILTERS, NAMES, SETTINGS, TEXTS
from tests.chaos.index.model_processes import Died, Process, Reading, Writing

STEPS = 14
DEATHS = st.integers(1, 60)
"""The change of files at which a writer dies; when a call makes fewer, it lives."""


class Model(RuleBasedStateMachine):
    """One corpus, its writer, two readers that live long, and the dictionaries they are compared with."""

    seen: ClassVar[Counter[str]] = Counter()
    """What the runs of this process came by."""
    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(dir=self.folder))
        self.layout = CorpusLayout(self.root, CORPUS)
        self.journal: Holding = {}
        self.offset = 0
        self.generations: dict[str, tuple[Holding, int]] = {}
        self.has_news = False
        """Whether there are records that no generation covers: then a publish makes one."""
        self.is_settled = False
        """Whether a publish must change nothing. A rollback holds until there are new records; a writer that is
        opened after one may publish again, as a death before the pointer's swap leaves the same files."""
        self.writer: Process | None = None
        self.reader = Process(partial(Reading, self.root, PUBLISHED_ONLY))
        self.recent = Process(partial(Reading, self.root, WITH_RECENT))
        self.seen["sequences"] += 1

    @initialize(chosen=SETTINGS)
    def open(self, chosen: WritePolicy) -> None:
        self.writer = Process(partial(Writing, self.root, chosen, []))
        offset, held, told = self.writer.call("state", NAMES)
        assert (offset, held, told) == (self.offset, set(self.journal), []), "a writer opens with something else"
        current = self._current()
        self.is_settled = current is not None and self.generations[current][1] == self.offset

    @rule(batch=st.lists(DOCUMENTS, min_size=1, max_size=4), publishes=st.booleans())
    def put(self, batch: list[ChunkedDocument], publishes: bool) -> None:
        self._record(self._news(batch), "append", batch)
        if publishes:
            self.publish()

    @rule(names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), publishes=st.booleans())
    def remove(self, names: list[str], publishes: bool) -> None:
        self._record([name for name in dict.fromkeys(names) if name in self.journal], "remove", names)
        if publishes:
            self.publish()

    @rule()
    def publish(self) -> None:
        before = self._current()
        assert self.writer is not None
        name = self.writer.call("publish")
        if name == before:
            assert not self.has_news, "a publish made nothing of what is new"
        else:
            assert not self.is_settled, "a publish without news changed what is current"
            self._published(name)
        self._look()

    @rule()
    def rebuild(self) -> None:
        assert self.writer is not None
        name, is_proven = self.writer.call("rebuild")
        assert is_proven, "the journal gives another set of chunks"
        self.seen["rebuilds"] += 1
        self._published(name)
        self._look()

    @precondition(lambda self: self.generations)
    @rule(back=st.integers(1, 3))
    def roll_back(self, back: int) -> None:
        listed = [info.name for info in list_generations(self.root, CORPUS)]
        with suppress(NotFound):  # collected meanwhile
            rollback(self.root, CORPUS, listed[min(back, len(listed) - 1)])
            self.seen["rollbacks"] += 1
        self._look()

    @rule(chosen=SETTINGS)
    def reopen(self, chosen: WritePolicy) -> None:
        assert self.writer is not None
        self.writer.call("close")
        self.writer.kill()
        self.open(chosen)

    @rule(chosen=SETTINGS)
    def crash(self, chosen: WritePolicy) -> None:
        assert self.writer is not None
        self.writer.kill()
        self.seen["deaths between calls"] += 1
        self.open(chosen)

    @rule(at=DEATHS, chosen=SETTINGS, method=st.sampled_from(("publish", "publish", "rebuild")))
    def crash_in_publish(self, at: int, chosen: WritePolicy, method: str) -> None:
        assert self.writer is not None
        before = self._current()
        with suppress(Died):
            self.writer.call(method, dies_at=at)
        name = self._current()
        if name is not None and name != before:
            self._published(name)
        for info in list_generations(self.root, CORPUS):  # one may be whole and not yet current
            self.generations.setdefault(info.name, (self.journal, self.offset))
        self.seen[f"deaths in {method}"] += 1
        self._look()
        self.writer.kill()
        self.open(chosen)

    @rule(at=st.integers(1, 3), chosen=SETTINGS, batch=st.lists(DOCUMENTS, min_size=1, max_size=4))
    def crash_in_append(self, at: int, chosen: WritePolicy, batch: list[ChunkedDocument]) -> None:
        assert self.writer is not None
        news = self._news(batch)
        acknowledged = False
        with suppress(Died):
            self.writer.call("append", batch, dies_at=at)
            acknowledged = True
        self.writer.kill()
        self.seen["deaths in append"] += 1
        writer = Process(partial(Writing, self.root, chosen, []))
        kept = writer.call("state", NAMES)[0] - self.offset
        writer.call("close")
        writer.kill()
        assert kept == len(news) if acknowledged else 0 <= kept <= len(news), f"{kept} of {len(news)} records are kept"
        self._take_in(news[:kept])
        self.open(chosen)

    @rule()
    def look(self) -> None:
        self._look()

    @rule()
    def new_reader(self) -> None:
        self.reader.kill()
        self.recent.kill()
        self.reader = Process(partial(Reading, self.root, PUBLISHED_ONLY))
        self.recent = Process(partial(Reading, self.root, WITH_RECENT))
        self._look()

    def teardown(self) -> None:
        if self.writer is not None:
            self.writer.kill()
        self.reader.kill()
        self.recent.kill()
        shutil.rmtree(self.root)

    def _news(self, batch: list[ChunkedDocument]) -> list[ChunkedDocument | str]:
        """Those of the batch that become records: no facts that are held already, unless the batch changed them."""
        news: list[ChunkedDocument | str] = []
        changed: set[str] = set()
        for document in batch:
            held = self.journal.get(document.document_id)
            if document.document_id in changed or held is None or make_facts(held) != make_facts(document):
                changed.add(document.document_id)
                news.append(document)
        return news

    def _record(self, news: list[ChunkedDocument | str], method: str, argument: list[Any]) -> None:
        assert self.writer is not None
        self.writer.call(method, argument)
        self._take_in(news)
        offset, held, _ = self.writer.call("state", NAMES)
        assert (offset, held) == (self.offset, set(self.journal)), "the writer holds something else"
        self._look_at_recent()

    def _take_in(self, news: list[ChunkedDocument | str]) -> None:
        self.journal = after(self.journal, news)
        self.offset += len(news)
        self.has_news = self.has_news or bool(news)
        self.is_settled = self.is_settled and not news

    def _published(self, name: str) -> None:
        self.generations[name] = (self.journal, self.offset)
        self.has_news, self.is_settled = False, True
        self.seen["publishes"] += 1

    def _current(self) -> str | None:
        return self.layout.current.readlink().name if self.layout.current.is_symlink() else None

    def _served(self) -> str | None:
        """The current one; where the very first publish died before it made a pointer, what that has left."""
        listed = [info.name for info in list_generations(self.root, CORPUS)]
        return self._current() or (listed[0] if [parse_generation_number(name) for name in listed] == [1] else None)

    def _look(self) -> None:
        """Let the reader look again, and compare all it says with the dictionary of what it serves."""
        name, offset, document_count, chunk_count, told = self.reader.call("look")
        assert name == self._served(), "something else than the current generation is served"
        assert told == [], told
        self.seen["looks"] += 1
        self._look_at_recent()
        if name is None:
            return
        verify(self.root, CORPUS, name)
        holding, covered = self.generations[name]
        assert (offset, document_count, chunk_count) == (covered, len(holding), len(passages(holding)))
        assert self.reader.call("facts", NAMES) == {key: make_facts(held) for key, held in holding.items()}
        for filters, accepts in FILTERS:
            self._find_all(filters, {key: held for key, held in holding.items() if accepts(held)})
        for text in TEXTS:
            self._find_one(text, holding)

    def _look_at_recent(self) -> None:
        """Compare what a reader that follows the journal serves: everything, unless an older generation is current."""
        name, offset, document_count, chunk_count, told = self.recent.call("look")
        assert (name, told) == (self._served(), [])
        if name is None:
            return
        is_newest = list_generations(self.root, CORPUS)[0].is_current
        follows = is_newest or offset == self.offset  # one that followed before may go on beside an unfinished publish
        holding, covered = (self.journal, self.offset) if follows else self.generations[name]
        assert (offset, document_count, chunk_count) == (covered, len(holding), len(passages(holding)))
        assert self.recent.call("facts", NAMES) == {key: make_facts(held) for key, held in holding.items()}
        for way in Strategy:
            _, seen, _ = self.recent.call("search", EVERYTHING, way, Filters())
            assert seen == passages(holding), f"with recent records {way} finds something else"

    def _find_all(self, filters: Filters, holding: Holding) -> None:
        for way in Strategy:
            generation, seen, _ = self.reader.call("search", EVERYTHING, way, filters)
            assert seen == passages(holding), f"{way} under {filters} finds something else in {generation}"

    def _find_one(self, text: str, holding: Holding) -> None:
        right = [passage for passage in passages(holding) if passage[2] == text]
        _, seen, _ = self.reader.call("search", text.split()[0], Strategy.BM25, Filters())
        assert seen == right, f"{text!r} is not found by its word"
        _, _, distances = self.reader.call("search", text, Strategy.VECTOR, Filters())
        near = [distance for distance in distances if distance is not None and distance < 1e-3]
        assert len(near) == len(right), f"{text!r} is not found by its vector"
        others = [distance for distance in distances if distance not in near]  # what repeats the question comes last
        assert others == sorted(others), "results are not in the order of their distances"


def differences(folder: Path, sequences: int, seed: int, shrinks: bool = False) -> tuple[Counter[str], str]:
    """Run so many sequences; what they came by, and the first difference with its steps; empty when there is none."""
    kind = type("ModelRun", (Model,), {"folder": folder, "seen": Counter[str]()})
    kind._hypothesis_internal_use_seed = seed  # type: ignore[attr-defined]
    chosen = settings(
        max_examples=sequences,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(kind, settings=chosen)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return kind.seen, "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
    return kind.seen, ""
