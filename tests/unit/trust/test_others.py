"""A passage about the Aldo 5 does not answer a question about the Aldo 3."""

from __future__ import annotations

import pytest

from sluice.trust.others import is_about_another

OTHERS = [
    ("How much does the Aldo 3 toaster weigh?", "The Aldo 5 toaster draws 1400 watts and weighs 2100 grams."),
    ("what does the aldo 3 weigh", "The Aldo 5 weighs 2100 grams."),
    ("What is the capacity of the Norda oven?", "The Sudra oven holds 60 litres."),
    ("How much does the AL9 kettle weigh?", "The AL7 kettle weighs 900 grams."),
    ("What is the flow rate of pump P-300?", "# Pump P-100\n\nIt moves 20 litres a minute."),
    ("When was Python 3.12 released?", "Python 3.11 was released in 2022."),
    ("When is the Corrie hut open?", "The Morlich hut is open from May to October."),
]
OWN = [
    ("How much does the Aldo 3 toaster weigh?", "The Aldo 5 toaster weighs 2 kg, the Aldo 3 toaster 1 kg."),
    ("When was Python 3.12 released?", "Python 3.12.1 was released in 2023, before Python 3.13."),
    ("When did Mongke Khan die?", "Möngke Khan died in 1259, after Ögedei Khan."),
    ("Who wrote Hamlet?", "The play was written by Shakespeare."),
    ("How do I open a file in Python?", "To open a file call open(). In Java there is FileReader."),
    ("SETL, Very High Level Languages", "Programming languages of a very high level, as APL."),
    ("How many pages has the report of 2023?", "The report has 40 pages."),
]


@pytest.mark.parametrize(("question", "text"), OTHERS)
def test_another_mark_beside_the_same_word_is_of_another_thing(question: str, text: str) -> None:
    assert is_about_another(question, text, is_english=True)


@pytest.mark.parametrize(("question", "text"), OWN)
def test_what_holds_the_mark_or_bears_none_is_not(question: str, text: str) -> None:
    assert not is_about_another(question, text, is_english=True)


def test_in_other_languages_capitals_mark_nothing() -> None:
    question, text = "Wie schwer ist der Ofen Norda?", "Der Ofen Sudra wiegt 40 kg."
    assert not is_about_another(question, text, is_english=False)
    assert is_about_another("Wie schwer ist der Ofen N3?", "Der Ofen N5 wiegt 40 kg.", is_english=False)
