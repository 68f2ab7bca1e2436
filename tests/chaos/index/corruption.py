"""A thousand corruptions of what is current: each is noticed, the newest whole generation answers, no answer is wrong.

After a harm a fresh reader must say that it fell back, serve the newest generation that is whole within two
seconds, and answer every question exactly as that generation did before the harm; a reader that already served
the generation before must refuse the damaged one on reload; `verify` and `rollback` must refuse it too. Then a
writer opens, says so as well, publishes, and all that the journal holds is served again.

Bytes that change under a reader while it serves them are out of scope: a generation is verified when it is opened.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.contracts.errors import Corrupted, NotFound
from sluice.index.folder import CorpusLayout
from sluice.index.generations.publish import rollback, verify
from sluice.index.local.reader import IndexReader
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from tests.chaos.index.child import ChildFailed, in_child
from tests.chaos.index.corpus import (
    CORPUS,
    KEPT,
    TODAY,
    Answers,
    Step,
    Story,
    answers,
    copy_tree,
    documents,
    found,
    new_reader,
    passages,
    rebuild,
    roll_back,
)
from tests.chaos.index.harms import Harm, fingerprint, harm

LIMIT_SECONDS = 2.0
_HEALED_SHARE = 0.5
"""Share of the private harms after which a writer is opened; after a shared one it always is."""

STORIES: tuple[Story, ...] = (
    Story(
        "grown",
        (
            Step(documents(range(30))),
            Step(documents(range(30, 36))),
            Step(documents((3, 31), version=2), ("doc-5",)),
            Step(documents((40, 41)), ("doc-4", "doc-32")),
        ),
    ),
    Story(
        "merged",
        (*(Step(documents(range(5 * n, 5 * n + 7), version=n)) for n in range(4)), Step(documents(range(3), version=9))),
        WritePolicy(keep_generations=9, max_segments=2, flush_chunks=8),
    ),
    Story(
        "rebuilt", (Step(documents(range(9))), Step(documents((1, 2), 2), ("doc-3",)), Step(documents((11,)))), KEPT, rebuild
    ),
    Story(
        "rolled back",
        (Step(documents(range(9))), Step(documents((9, 10))), Step((), ("doc-1",)), Step(documents((0,), 2))),
        KEPT,
        roll_back,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Template:
    """A written corpus, and what each of its generations is: its files' hashes and its answers."""

    story: Story
    root: Path
    current: str
    fingerprints: dict[str, dict[str, str]]
    answers: dict[str, Answers]

    @property
    def tried(self) -> list[str]:
        """The generations that may be served, best first: the current one and those before it."""
        return sorted((name for name in self.fingerprints if name <= self.current), reverse=True)

    def expected(self, layout: CorpusLayout) -> str | None:
        """The newest generation that is what it was, or None."""
        whole = (n for n in self.tried if fingerprint(layout.generations / n) == self.fingerprints[n])
        return next(whole, None)


@dataclass(frozen=True, slots=True)
class Trial:
    """One corruption and what came of it."""

    harm: Harm
    story: str
    seconds: float
    problems: tuple[str, ...]


def template(story: Story, folder: Path) -> Template:
    """Write the story's corpus below `folder` and note what every generation answers."""
    root = folder / story.name.replace(" ", "-")
    answered = in_child(lambda: _tell_and_ask(story, root))
    layout = CorpusLayout(root, CORPUS)
    prints = {path.name: fingerprint(path) for path in layout.generations.iterdir()}
    return Template(story, root, layout.current.readlink().name, prints, answered)


def trials(folder: Path, seed: int, count: int, is_verified: bool = True) -> Iterator[Trial]:
    """`count` corruptions, each of a fresh copy. Without `is_verified` the readers look at no hash."""
    templates = [template(story, folder) for story in STORIES]
    for number in range(count):
        chance = random.Random(f"{seed}:{number}")
        yield trial(chance.choice(templates), folder / "copy", chance, is_verified)


def trial(of: Template, root: Path, chance: random.Random, is_verified: bool = True) -> Trial:
    """Copy the corpus, let one reader serve the generation before, harm the copy, and look at what happens."""
    copy_tree(of.root, root)
    try:
        done, seconds, problems = in_child(lambda: _suffer(of, root, chance, is_verified))
        if done.is_shared or chance.random() < _HEALED_SHARE:
            problems += _healed(of, root)
    finally:
        shutil.rmtree(root)
    return Trial(done, of.story.name, seconds, tuple(f"{of.story.name}, {done}: {problem}" for problem in problems))


def kinds(of: Sequence[Trial]) -> dict[str, int]:
    """How many corruptions there were of each kind."""
    named = (f"{one.harm.kind.split()[0]}{' shared' if one.harm.is_shared else ''}" for one in of)
    return dict(sorted(Counter(named).items()))


def _tell_and_ask(story: Story, root: Path) -> dict[str, Answers]:
    answered: dict[str, Answers] = {}

    def ask(root: Path) -> None:
        reader = new_reader(root, [])
        given = answers(reader)
        name = reader.generation
        assert name is not None
        assert answered.setdefault(name, given) == given
        reader.close()

    story.tell(root, ask)
    return answered


def _suffer(of: Template, root: Path, chance: random.Random, is_verified: bool) -> tuple[Harm, float, tuple[str, ...]]:
    layout = CorpusLayout(root, CORPUS)
    told_before: list[str] = []
    earlier = new_reader(root, told_before, is_verified)
    _point(layout, of.tried[1])
    assert answers(earlier) == of.answers[of.tried[1]]
    _point(layout, of.current)
    done = harm(layout, of.current, chance)
    expected = of.expected(layout)
    seconds, problems = _fresh_reader(of, root, expected, is_verified)
    if done.kind.startswith("pointer") and of.current != max(of.fingerprints):
        # Which one it named is lost: the newest of all is as good as the one that was rolled back to.
        seconds, others = _fresh_reader(of, root, max(of.fingerprints), is_verified)
        problems = others if problems else []
    if expected == of.tried[1]:
        problems += [f"on reload: {problem}" for problem in _reloaded(of, earlier, told_before)]
    if expected != of.current:
        problems += _refused_by_tools(of, root)
    return done, seconds, tuple(problems)


def _fresh_reader(of: Template, root: Path, expected: str | None, is_verified: bool) -> tuple[float, list[str]]:
    """The seconds until the first answers, and what is wrong with them."""
    told: list[str] = []
    started = time.perf_counter()
    reader = new_reader(root, told, is_verified)
    try:
        given = answers(reader)
    except Corrupted:
        return time.perf_counter() - started, [] if expected is None else [f"nothing is served, {expected} is whole"]
    except BaseException as error:  # a panic of a library is no `Exception`
        return time.perf_counter() - started, [f"a search raised {error!r}"]
    seconds = time.perf_counter() - started
    problems = [] if told and reader.fallback_reason else [f"nobody is told: {told}, {reader.fallback_reason!r}"]
    if seconds > LIMIT_SECONDS:
        problems.append(f"served after {seconds:.1f} s")
    if reader.generation != expected:
        problems.append(f"{reader.generation} is served, {expected} is the newest whole one")
    if given != of.answers.get(reader.generation or ""):
        problems.append(f"answers differ from those that {reader.generation} gave before")
    return seconds, problems


def _reloaded(of: Template, reader: IndexReader, told: list[str]) -> list[str]:
    """What is wrong with a reader that served the generation before and is asked to look again."""
    try:
        served, given = reader.reload(), answers(reader)
    except BaseException as error:
        return [f"a search raised {error!r}"]
    problems = [] if told and reader.fallback_reason else ["nobody is told"]
    if served != of.tried[1] or given != of.answers[of.tried[1]]:
        problems.append(f"{served} is served, or answers differ")
    return problems


def _refused_by_tools(of: Template, root: Path) -> list[str]:
    """`verify` names the damage of the current generation when there is any, and nobody can roll back to it."""
    folder = CorpusLayout(root, CORPUS).generations / of.current
    if fingerprint(folder) == of.fingerprints[of.current]:
        return []
    problems = []
    for tool in (verify, rollback):
        try:
            tool(root, CORPUS, of.current)
        except (Corrupted, NotFound):
            continue
        except Exception as error:
            problems.append(f"{tool.__name__} raised {error!r}")
            continue
        problems.append(f"{tool.__name__} accepts the damaged generation")
    return problems


def _healed(of: Template, root: Path) -> tuple[str, ...]:
    try:
        return in_child(lambda: _heal(of, root))
    except ChildFailed as error:
        return (f"healing failed: {error}",)


def _heal(of: Template, root: Path) -> tuple[str, ...]:
    """What is wrong after a writer opened the harmed corpus, published, and a reader looks."""
    told: list[str] = []
    with IndexWriter(root, CORPUS, of.story.settings, clock=lambda: TODAY, on_fallback=told.append) as writer:
        problems = [] if told else ["the writer tells nobody"]
        published = writer.publish()
    reader_told: list[str] = []
    reader = new_reader(root, reader_told)
    if found(reader) != passages(of.story.holding):
        problems.append("after the writer's publish, what is served is not what the journal holds")
    if reader_told or reader.fallback_reason or reader.generation != published.name:
        problems.append(f"after the writer's publish of {published.name}, {reader.generation} is served: {reader_told}")
    return tuple(problems)


def _point(layout: CorpusLayout, name: str) -> None:
    """Let the pointer name a generation."""
    temporary = layout.folder / "CURRENT.new"
    temporary.symlink_to(f"generations/{name}")
    os.replace(temporary, layout.current)
