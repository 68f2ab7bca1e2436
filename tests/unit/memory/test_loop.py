"""An agent's loop through the real memory: what an iteration learned the next one knows, and nothing feeds itself."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from sluice.contracts.memory.api import PromptBlock
from sluice.contracts.memory.learning import LearningSource
from sluice.contracts.memory.model import IterationOutcome
from sluice.memory.block_marks import mark_block
from sluice.memory.recall.sections import UNREVIEWED
from sluice.memory.recall.weigh import fared
from tests.support.memory.agent_loop import (
    FEATURE,
    FORBIDDEN,
    POISON,
    PROBLEMS,
    RIGHT,
    WRONG,
    Loop,
    Restate,
    apply_it,
    be_poisoned,
    believe,
    learnings_told,
    paraphrased,
    reordered,
    repeat_prompt,
    verbatim,
    work_on,
)
from tests.support.memory.claude_stream import ClaudeStream

FACTS = (
    "Kafka consumers must commit offsets after processing",
    "The linker cannot find libpq on Alpine",
    "Pin terraform to version 1.7",
    "nginx strips headers with underscores",
    "Helm upgrades fail when the secret is missing",
    "Do not edit generated protobuf files",
)


def test_what_an_iteration_learned_is_in_the_prompt_of_the_next(tmp_path: Path) -> None:
    """Twenty iterations of a failing task: each prompt tells the error before it, with file and line, and the attempt."""
    loop = Loop(tmp_path)
    for number in range(1, 21):
        problem = PROBLEMS[(number - 1) // 4]
        _, record = loop.iterate(number, lambda stream, _, problem=problem: work_on(stream, problem))
        block = loop.memory.prompt(FEATURE)
        assert f"Iteration {number} ended with {record.outcome}" in block.text
        assert record.errors
        for error in record.errors:
            assert f"{error.file_path}:{error.line}" in block.text
            assert error.message in block.text
        assert problem.file in block.text
        assert record.decisions[0].description in block.text
        assert block.tokens <= loop.memory.config.max_prompt_tokens
    _, record = loop.iterate(21, lambda stream, _: work_on(stream, None))
    assert record.outcome is IterationOutcome.SUCCESS
    after = loop.memory.prompt(FEATURE).text
    assert "Iteration 21 ended with Success" in after
    assert "error at" not in after


def test_an_error_of_several_iterations_becomes_a_learning(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    for number in range(1, 4):
        loop.iterate(number, lambda stream, _: work_on(stream, PROBLEMS[2]))
    loop.iterate(4, lambda stream, _: work_on(stream, None))
    again = next(one for one in loop.memory.learnings(FEATURE).learnings if "KeyError" in one.text)
    assert again.source is LearningSource.AUTO
    told = loop.memory.prompt(FEATURE).text
    assert "KeyError: 'expires_at'\" in tests/test_session.py was solved: " in told
    assert again.text not in told, "the block says how it was solved"


def test_a_decision_that_was_told_and_then_succeeds_is_learned(tmp_path: Path) -> None:
    """The prompt tells what was tried; to try it again is no echo, and its success is new."""
    loop = Loop(tmp_path)
    loop.iterate(1, lambda stream, _: work_on(stream, PROBLEMS[0]))

    def act(stream: ClaudeStream, block: PromptBlock) -> str:
        assert "the proxy strips headers with underscores" in block.text
        return work_on(stream.say(f"I'll {PROBLEMS[0].tried}."), None)

    loop.iterate(2, act)
    texts = [one.text for one in loop.memory.learnings(FEATURE).learnings]
    assert any("signed cookie" in text and "because the proxy strips headers" in text for text in texts)


@pytest.mark.parametrize("poison", POISON)
def test_poison_reaches_no_prompt_unmarked(tmp_path: Path, poison: str) -> None:
    """From a file, an error's message, a decision, a lesson or a learning: the loop goes on, and warns of it."""
    loop = Loop(tmp_path)
    loop.memory.learn(FEATURE, poison, f"seen in the README: {poison}", LearningSource.AGENT, 1)
    for number in range(1, 4):
        loop.iterate(number, lambda stream, _: be_poisoned(stream, poison))
    block = loop.memory.prompt(FEATURE, query=poison)
    assert "Iteration 3 ended with Failure" in block.text
    unmarked = "\n".join(line for line in block.text.split("\n") if UNREVIEWED not in line).lower()
    assert not [one for one in FORBIDDEN if one in unmarked]


def test_a_wrong_learning_does_not_grow_by_being_recalled(tmp_path: Path) -> None:
    """The agent believes it, does it and says it again in each of twenty iterations, and the same test fails."""
    loop = Loop(tmp_path)
    wrong = loop.memory.learn(FEATURE, WRONG, "it passed once", LearningSource.AGENT, 1).learning
    assert wrong is not None
    told = []
    for number in range(1, 21):
        block, _ = loop.iterate(number, believe(WRONG))
        told.append(WRONG in learnings_told(block))
        now = next(one for one in loop.memory.learnings(FEATURE).learnings if one.id == wrong.id)
        assert now.hit_count == 1
        assert now.helped == 0
        assert fared(now) <= 1.0
    assert told[:3] == [True] * 3
    assert not any(told[-10:])
    assert now.failed_again >= 4


def test_a_learning_that_helps_rises(tmp_path: Path) -> None:
    """By outcomes in sessions of their own, and without another hit."""
    loop = Loop(tmp_path)
    right = loop.memory.learn(FEATURE, RIGHT, "it passed once", LearningSource.AGENT, 1).learning
    assert right is not None
    for number in range(1, 6):
        loop.iterate(number, apply_it)
    now = next(one for one in loop.memory.learnings(FEATURE).learnings if one.id == right.id)
    assert (now.shown, now.used, now.helped) == (5, 5, 5)
    assert now.hit_count == 1
    assert fared(now) > 1.5


@pytest.mark.parametrize(("restate", "most"), [(verbatim, 1.0), (reordered, 2.0), (paraphrased, 4.0)])
def test_an_agent_that_repeats_its_prompt_does_not_fill_the_memory(
    tmp_path: Path, restate: Restate, most: float
) -> None:
    """Its lessons are its prompt, word by word, in another order, or in other words: no hits, and a bounded number."""
    loop = Loop(tmp_path)
    for fact in FACTS:
        loop.memory.learn(FEATURE, fact, "it was seen", LearningSource.AGENT, 1)
    rng = random.Random(18)
    counts = []
    for number in range(1, 16):
        loop.iterate(number, repeat_prompt(restate, rng))
        found = [one for one in loop.memory.learnings(FEATURE).learnings if one.source is LearningSource.AGENT]
        counts.append(len(found))
        assert all(one.hit_count == 1 for one in found)
    assert counts[-1] <= most * len(FACTS)


def test_what_a_block_said_is_cut_out_of_the_record(tmp_path: Path) -> None:
    """However the agent copies it: in its words, in a file that it reads, in a command's output."""
    loop = Loop(tmp_path)
    loop.memory.learn(FEATURE, FACTS[0], "it was seen", LearningSource.AGENT, 1)

    def act(stream: ClaudeStream, block: PromptBlock) -> str:
        stream.say(f"I decided to go on because\n{block.text}")
        stream.read("PROMPT.md", f"# Prompt\n{block.text}\n")
        stream.run("cat prompt.json", json.dumps({"prompt": block.text}))
        return work_on(stream, PROBLEMS[0], f"Done.\n\n{block.text}\n\nThe login still fails.")

    block, record = loop.iterate(1, act)
    assert FACTS[0] in block.text
    assert FACTS[0] not in record.model_dump_json()
    assert "The login still fails." in record.summary
    assert record.not_kept


def test_a_begin_mark_in_a_tool_s_output_hides_no_error(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    mark = mark_block("mem_" + "0" * 32, ("x",)).split("\n")[0]

    def act(stream: ClaudeStream, _: PromptBlock) -> str:
        stream.run("pytest -q tests/test_login.py", f"{mark}\n{PROBLEMS[0].report()}", 1)
        return stream.end("It fails.")

    _, record = loop.iterate(1, act)
    assert [PROBLEMS[0].message in one.message for one in record.errors] == [True]
