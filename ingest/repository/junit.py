"""Test reports in JUnit's XML, as pytest and most test runners write them (`pytest --junitxml=report.xml`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lxml import etree

MOST_FAILING = 1_000
MOST_MESSAGE_CHARACTERS = 300
_START = re.compile(r"\A\s*(?:<\?xml[^>]*\?>)?\s*(?:<!--.*?-->\s*)*<testsuites?[\s>]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Report:
    """How many tests ran, and which fail: their names as pytest gives them, with the first line of their message."""

    total: int
    failing: tuple[tuple[str, str], ...]


def is_report(text: str) -> bool:
    """Whether an XML text is a test report."""
    return _START.match(text[:4_096]) is not None


def parse_report(text: str) -> Report | None:
    """The report; None where the text is none or is not well-formed. No entity and no address of it is followed."""
    if not is_report(text):
        return None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(text.encode("utf-8", "surrogatepass"), parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    failing: list[tuple[str, str]] = []
    total = 0
    for case in root.iter("testcase"):
        total += 1
        problem = next((child for child in case if child.tag in ("failure", "error")), None)
        if problem is not None and len(failing) < MOST_FAILING:
            failing.append((_name(case), _message(problem)))
    return Report(total, tuple(failing))


def _name(case: etree._Element) -> str:
    """`tests/test_x.py::TestY::test_z`; where the file is not told, by the class's dotted name."""
    file, owner, name = case.get("file"), case.get("classname") or "", case.get("name") or "?"
    words = [file or owner.replace(".", "/"), name]
    return "::".join("_".join(word.split()) for word in words if word)


def _message(problem: etree._Element) -> str:
    told = problem.get("message") or (problem.text or "").strip()
    return " ".join(told.split())[:MOST_MESSAGE_CHARACTERS]
