"""Decides whether a tool may run a piece of code, by the rules of `trust/code/rules.toml`.

    denied          a rule forbids it: a download piped to an interpreter, a disk wiped, credentials read
    needs_approval  a rule requires a person: network, files, commands; or the code cannot be judged by rules: a shell
                    script, a language without a parser here, Python that does not parse
    allowed         it was parsed, and no rule matched

Only Python is parsed (`ast`, which runs nothing): names are followed through its imports, so `from os import remove as
r; r(f)` is `os.remove`. Rules see the text of the code and not its effects: the policy `allowed` is no sandbox.
"""

from __future__ import annotations

import ast
import re
import tomllib
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict

from sluice.contracts.base import Value
from sluice.contracts.profiles import CodeSample

MOST_CHARACTERS = 100_000
"""Most characters of one sample: a longer text is no sample, and is not parsed."""
MOST_SHOWN_CHARACTERS = 80
_PARSED = frozenset({"python"})
_FILE = tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8"))
_SPELLINGS: dict[str, str] = _FILE["languages"]["spellings"]
_NOT_CODE = frozenset(_FILE["languages"]["not_code"])
_NO_PARSER = "cannot be parsed here, and rules on words alone do not clear code"
_PROMPT = re.compile(r"^(?:>>>|\.\.\.) ?", re.MULTILINE)
_MODES = re.compile(r"[wax+]")


def _compile(patterns: object) -> object:
    if not isinstance(patterns, list):
        return patterns
    return tuple(re.compile(one, re.IGNORECASE | re.MULTILINE) for one in patterns)


class Rule(Value):
    """One rule: the words or calls that meet it, and its verdict."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str
    verdict: Literal["deny", "ask"]
    words: Annotated[tuple[re.Pattern[str], ...], BeforeValidator(_compile)] = ()
    calls: tuple[str, ...] = ()


def judge_code(code: str, language: str | None) -> CodeSample | None:
    """Return the policy for running `code`, with reasons; None where the language is a data format."""
    named = _SPELLINGS.get((language or "").lower(), (language or "").lower()) or None
    if named in _NOT_CODE:
        return None
    met = [(rule, shown) for rule in rules() if (shown := _meet(rule, code)) is not None]
    calls, problem = _calls_of(code) if named in _PARSED else (frozenset(), _unparsed(named))
    met += [(rule, call) for rule in rules() for call in sorted(calls) if _covers(rule, call)]
    denied = [_why(rule, shown) for rule, shown in met if rule.verdict == "deny"]
    asked = [_why(rule, shown) for rule, shown in met if rule.verdict == "ask"]
    why = tuple(dict.fromkeys([*denied, *asked, *([problem] if problem and not denied else [])]))
    policy = "denied" if denied else "needs_approval" if why else "allowed"
    return CodeSample.model_validate({"language": named, "policy": policy, "why": why})


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """Return the rules, in the order of the file."""
    return tuple(Rule.model_validate(one) for one in _FILE["rules"])


def _meet(rule: Rule, code: str) -> str | None:
    matches = (pattern.search(code[:MOST_CHARACTERS]) for pattern in rule.words)
    return next((match[0] for match in matches if match), None)


def _why(rule: Rule, shown: str) -> str:
    return f"{rule.name}: {' '.join(shown.split())[:MOST_SHOWN_CHARACTERS]}"


def _unparsed(language: str | None) -> str:
    return f"{language} {_NO_PARSER}" if language else "its language is not known, so it cannot be judged"


def _covers(rule: Rule, call: str) -> bool:
    """Return whether a rule covers a call: `os` covers `os.remove`, `.unlink` covers the method of any value."""
    return any(
        call == name or call.startswith(f"{name}.") or (name.startswith(".") and call.endswith(name))
        for name in rule.calls
    )


def _calls_of(code: str) -> tuple[frozenset[str], str | None]:
    """Return the dotted names that Python code imports or uses, aliases resolved; and why it could not be parsed."""
    text = _PROMPT.sub("", code) if ">>>" in code else code
    if len(text) > MOST_CHARACTERS:
        return frozenset(), "it is too long to be parsed"
    tree = _parse(text)
    if tree is None:
        return frozenset(), "it does not parse as Python, so it cannot be judged"
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {
                one.asname or one.name.split(".")[0]: one.name if one.asname else one.name.split(".")[0]
                for one in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            aliases |= {one.asname or one.name: f"{node.module or ''}.{one.name}" for one in node.names}
    return frozenset([*aliases.values(), *_used(tree, aliases)]), None


def _parse(text: str) -> ast.Module | None:
    """Return the tree; a passage that begins inside a block is parsed without the block's indentation."""
    import textwrap

    for candidate in (text, textwrap.dedent(text)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(candidate)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _used(tree: ast.Module, aliases: dict[str, str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and (name := _dotted(node, aliases)):
            yield name
        if isinstance(node, ast.Call):
            yield from _called(node, _dotted(node.func, aliases), aliases)


def _called(call: ast.Call, name: str, aliases: dict[str, str]) -> Iterator[str]:
    """Yield the effects of a call beside its name: a file opened for writing, a module attribute read by a text."""
    if name in ("open", "io.open") or name.endswith(".open"):
        modes = call.args[1:2] if name in ("open", "io.open") else call.args[:2]
        yield from ["open:write"] if _writes(call, modes) else []
    if name == "getattr" and len(call.args) >= 2 and isinstance(call.args[0], ast.Name) and call.args[0].id in aliases:
        asked = call.args[1]
        is_text = isinstance(asked, ast.Constant) and isinstance(asked.value, str)
        yield f"{aliases[call.args[0].id]}.{asked.value}" if is_text else "getattr:computed"  # type: ignore[attr-defined]


def _dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    """Return the dotted name: `np.load` as `numpy.load`; a method of an unnamed value as `.unlink`."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    head = aliases.get(node.id, node.id) if isinstance(node, ast.Name) else ""
    return ".".join([head, *reversed(parts)])


def _writes(call: ast.Call, given: list[ast.expr]) -> bool:
    modes = [*given, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    texts = [one.value for one in modes if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return any(len(text) <= 4 and _MODES.search(text) for text in texts)


_FENCE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,}) *(?P<info>[^\n`]*)\n(?P<code>.*?)(?:^ {0,3}(?P=fence)|\Z)", re.M | re.S
)
_STRICTNESS: tuple[Literal["allowed", "needs_approval", "denied"], ...] = ("allowed", "needs_approval", "denied")


def find_code(text: str, language: str | None, *, is_code: bool) -> CodeSample | None:
    """Return the policy for running the code in a passage; None where there is no code.

    `language` is that of a code file (`is_code`). Of several fenced blocks the strictest counts, with the reasons of
    all.
    """
    if is_code:
        return judge_code(text, language)
    blocks = [
        (match["info"].split()[0].strip("{}.").lower() if match["info"].strip() else None, match["code"])
        for match in _FENCE.finditer(text)
    ]
    judged = [sample for named, code in blocks if (sample := judge_code(code, named)) is not None]
    if not judged:
        return None
    strictest = max(judged, key=lambda sample: _STRICTNESS.index(sample.policy))
    return strictest.model_copy(update={"why": tuple(dict.fromkeys(why for sample in judged for why in sample.why))})
