"""Which passages merely repeat the question, and which answer it."""

from __future__ import annotations

import pytest

from sluice.index.search.echoes import EchoDetector

QUESTION = "What breaks when the mill stops?"

ECHOES = {
    "a heading without its text": "# FAQ\n\n## What breaks when the mill stops?\n",
    "a heading before the next one": "## What breaks when the mill stops?\n\n## Limits\n\nA queue takes 10,000 events.",
    "an answer that is empty": "Q: What breaks when the mill stops?\nA:\n\nQ: How do I upgrade?\nA: Run migrate.",
    "a list of questions": "- How do I upgrade?\n- What breaks when the mill stops?\n- Where are the logs?",
    "a table of contents": "- [What breaks when the mill stops?](#what-happens-when-a-worker-dies)\n- [Limits](#limits)",
    "a test": 'def test_ask(client):\n    run = client.ask("What breaks when the mill stops?")\n    assert run.done',
    "a list in code": 'QUESTIONS = [\n    "Where are the logs?",\n    "What breaks when the mill stops?",\n]',
    "a command": 'finder init\nfinder ask "What breaks when the mill stops?"\nfinder serve --workers 4',
    "a request": 'curl localhost/ask -d \'{"query": "What breaks when the mill stops?", "wait": true}\'',
    "a log": '10:31 INFO query="what breaks when the mill stops?" 3 ms\n10:32 INFO query="where are the logs?" 4 ms',
    "a log without quotation marks": "10:31 ada asked: What breaks when the mill stops?\n10:32 bob asked: And then?",
    "the question in other words": "Questions\n\nWhen the mill stops, what breaks?\n\nWhere are the logs?",
    "a row of questions as JSON": '["Where are the logs?", "What breaks when the mill stops?", "How do I upgrade the old mill?"]',
    "a request with many arguments": (
        '{"query": "What breaks when the mill stops?", "top_k": 8, "strategy": "hybrid", "corpus": "mills", "wait": true}'
    ),
    "a chat that went on without an answer": "user: What breaks when the mill stops?\nassistant:\nuser: Are you there?",
    "headings without question marks": "## What breaks when the mill stops\n\n## Who repairs it\n",
    "the question again and again": "What breaks when the mill stops? What breaks when the *mill* stops?",
}

ANSWERS = {
    "a heading and its text": "## What breaks when the mill stops?\n\nIts lease runs out, and another one takes over.",
    "a heading and a deeper one": "## What breaks when the mill stops?\n\n### In short\n\nThe event is handled again.",
    "a short answer": "Q: What breaks when the mill stops?\nA: No harm.\n\nQ: How do I upgrade?",
    "an answer in the same line": "**What breaks when the mill stops?** Its lease runs out.",
    "an answer in a table": "| question | answer |\n|---|---|\n| What breaks when the mill stops? | The lease runs out. |",
    "an answer in a list": "- How do I upgrade?\n- What breaks when the mill stops?\n  - The lease runs out.\n- And then?",
    "an answer as JSON": '{"question": "What breaks when the mill stops?", "answer": "Its lease runs out and it is done again."}',
    "the question quoted, and answered in its words": (
        'The classic is "What breaks when the mill stops?", they say.\nA mill that stops is repaired.'
    ),
    "one that repeats and one that answers": (
        "- What breaks when the mill stops?\n- And then?\n\n## What breaks when the mill stops?\n\nAnother takes over."
    ),
    "what stands before the question": "A mill that stops breaks its wheel, and the dam fills. What breaks when the mill stops?",
    "no repetition": "When the mill stops, its wheel breaks, and what it ground spoils.",
    "a statement of the same words": "This page tells what breaks when the mill stops: its lease runs out. Then another takes over.",
}


@pytest.mark.parametrize("text", ECHOES.values(), ids=ECHOES)
def test_a_passage_that_merely_repeats_the_question_is_an_echo(text: str) -> None:
    assert EchoDetector(QUESTION).is_echo(text)
    assert EchoDetector(QUESTION.rstrip("?").lower()).is_echo(text)


def test_the_very_words_are_an_echo_of_a_question_and_the_text_that_is_looked_for_otherwise() -> None:
    words = "what breaks when the mill stops"
    test = "def test_what_breaks_when_the_mill_stops(client):\n    assert client.ask(QUESTION).citations"
    for text in (words, test):
        assert EchoDetector(QUESTION).is_echo(text)
        assert not EchoDetector(words).is_echo(text)
    raised = 'raise Stopped("the mill has stopped for good")'
    assert not EchoDetector("the mill has stopped for good").is_echo(raised)


@pytest.mark.parametrize("text", ANSWERS.values(), ids=ANSWERS)
def test_a_passage_that_answers_is_none_though_it_repeats_the_question(text: str) -> None:
    assert not EchoDetector(QUESTION).is_echo(text)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Was geschieht, wenn ein Arbeiter stirbt?", "## Was geschieht, wenn ein Arbeiter stirbt?\n\n## Wo liegt es?"),
        ("ワーカーが停止するとどうなりますか？", "- 更新の方法は？\n- ワーカーが停止するとどうなりますか？"),
        ("ماذا يحدث عندما يموت العامل؟", "- ماذا يحدث عندما يموت العامل؟\n- أين السجلات؟"),
        ("Τι συμβαίνει όταν πεθαίνει ένας εργάτης;", "Τι συμβαίνει όταν πεθαίνει ένας εργάτης;\nΠού είναι τα αρχεία;"),
    ],
)
def test_questions_of_other_scripts_are_told_by_their_own_marks(question: str, text: str) -> None:
    assert EchoDetector(question).is_echo(text)
    assert not EchoDetector(question).is_echo(f"{question}\n\n2026 – 31, 10:30 – 11:45 (§ 12)")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("deepcopy", "deepcopy"),
        ("lru_cache maxsize", "## lru_cache maxsize"),
        (
            "RuntimeError: dictionary changed size during iteration",
            "RuntimeError: dictionary changed size during iteration\n\nIterate over a copy: list(d).",
        ),
        (
            "Global warming drives polar bears toward extinction",
            "Some say that global warming drives polar bears toward extinction. The ice melts earlier each year.",
        ),
        (
            "dictionary changed size during iteration",
            'for key in d:\n    if stale(key):\n        del d[key]  # "dictionary changed size during iteration"\n'
            "# A dictionary must keep its size during an iteration.",
        ),
    ],
)
def test_keywords_error_messages_and_claims_are_found_where_they_stand(question: str, text: str) -> None:
    assert not EchoDetector(question).is_echo(text)
