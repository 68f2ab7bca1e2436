"""The prompt templates: data files in `trust/prompts/templates`, each with its version in its name.

A published version never changes: a better text is the next one. A test compares each prompt with a golden file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from sluice.contracts.base import Value
from sluice.contracts.errors import InvalidInput, InvalidSetting, first_problem

TEMPLATES_DIR = Path(__file__).parent / "templates"
NONCE = "{nonce}"
"""Placeholder in a template for the random part of the delimiters."""
_STEM = re.compile(r"([a-z][a-z0-9_]*)\.v([1-9][0-9]*)")


class Example(Value):
    """A question with its passages, and the expected answer."""

    question: str
    answer: str


class Template(Value):
    """A prompt: the system message, and examples as question and answer. `extends` prepends another template."""

    name: str
    version: int
    summary: str
    system: str
    examples: tuple[Example, ...] = ()
    extends: str | None = None

    @property
    def full_name(self) -> str:
        """Name and version, such as `rag.v1`."""
        return f"{self.name}.v{self.version}"


@lru_cache(maxsize=1)
def templates() -> Mapping[str, Template]:
    """Return every template by its full name, in order of name and version.

    Raises `InvalidSetting` if a file has a field that does not fit, or extends an unknown template.
    """
    files = {path.stem: path for path in TEMPLATES_DIR.glob("*.toml")}
    found = [_load(stem, files) for stem in files]
    return {one.full_name: one for one in sorted(found, key=lambda one: (one.name, one.version))}


def template_named(name: str, field: str = "prompt") -> Template:
    """Return the template of that name: `rag.v1`, or the latest version of `rag`.

    Raises `InvalidInput`, which names `field` and the known templates, if there is none.
    """
    known = templates()
    found = [one for one in known.values() if name in (one.name, one.full_name)]
    if not found:
        short = dict.fromkeys(one.name for one in known.values())
        raise InvalidInput(field, f"no prompt {name!r}", f"one of {', '.join([*short, *known])}")
    return found[-1]


def _load(stem: str, files: Mapping[str, Path]) -> Template:
    named = _STEM.fullmatch(stem)
    if named is None:
        raise InvalidSetting(f"prompts.{stem}", "a template's file is called NAME.vNUMBER.toml", "rename it")
    try:
        own = Template.model_validate(
            {"name": named[1], "version": int(named[2]), **tomllib.loads(files[stem].read_text("utf-8"))}
        )
    except ValidationError as error:
        raise InvalidSetting(f"prompts.{stem}.{first_problem(error)[0]}", first_problem(error)[1]) from error
    own = own.model_copy(update={"system": own.system.strip(), "examples": tuple(map(_stripped, own.examples))})
    if own.extends is None:
        return own
    if own.extends not in files:
        raise InvalidSetting(f"prompts.{stem}.extends", f"no template {own.extends!r}")
    below = _load(own.extends, files)
    update = {"system": f"{below.system}\n\n{own.system}", "examples": (*below.examples, *own.examples)}
    return own.model_copy(update=update)


def _stripped(example: Example) -> Example:
    return Example(question=example.question.strip(), answer=example.answer.strip())
