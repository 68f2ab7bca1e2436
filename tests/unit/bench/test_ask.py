"""The questions of `bench.ask`, and the passages made of questions."""

from __future__ import annotations

import pytest

from bench.ask.__main__ import questions_about
from bench.ask.echoes import FORMS
from bench.ask.questions import Question, read_questions
from sluice.index.search.echoes import EchoDetector
from tests.support.evaluation_samples import chunk

ANSWER = "The mill was built in 1821 by Ada Miller. It burnt down in 1901. A museum stands there now."
QUESTION = "Who built the old mill by the river?"
OTHERS = [f"What is the name of the bridge number {number} over the river?" for number in range(8)]


def test_an_answer_is_a_passage_of_the_right_document_that_holds_one_of_its_phrases() -> None:
    question = Question("how", {"docs/a.md": ("The `timeout` argument",)})
    passages = [
        ("docs/b.md", "the timeout argument is"),
        ("clone/docs/a.md", "another argument"),
        ("clone/docs/a.md", "the *timeout*\nargument is"),
    ]
    found = [chunk("c", "d").model_copy(update={"file_path": path, "text": text}) for path, text in passages]
    assert question.rank_answer(found) == 3
    assert question.rank_answer(found[:2]) is None


@pytest.mark.parametrize("name", ["python", "repository"])
def test_there_are_twenty_questions_of_each_with_their_answers(name: str) -> None:
    questions = read_questions(name)
    assert len({question.query for question in questions}) == len(questions) == 20
    assert all(phrases for question in questions for phrases in question.answers.values())


def test_the_documents_alone_are_asked_what_they_answer() -> None:
    of_documents = questions_about("documents")
    left_out = [question for question in questions_about("repository") if question not in of_documents]
    assert {path for question in left_out for path in question.answers} == {"index/search/candidates.py"}


@pytest.mark.parametrize("form", FORMS)
def test_of_the_made_passages_only_the_answered_heading_is_no_echo(form: str) -> None:
    _, text = FORMS[form](QUESTION, OTHERS, ANSWER)
    assert EchoDetector(QUESTION).is_echo(text) == (form != "heading and answer")
