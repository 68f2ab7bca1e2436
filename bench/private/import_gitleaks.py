"""Write the rules of a gitleaks configuration in our own form: `trust/private/rules/gitleaks.toml`.

    python -m bench.private.import_gitleaks gitleaks.toml 8.30.1 2026-11-23

gitleaks writes its patterns for Go's RE2. Changed for Python's `re`: flags in the middle of a pattern become a group of
their own, `\\z` becomes `\\Z`, POSIX classes are written out. Changed for texts that are not code: what ends a token
may also be punctuation, and the optional text before a keyword (`[\\w.-]{0,50}?`), which decides nothing, is left out,
as it costs most of the time. What may stand within a command is bounded, so that time grows with the text and not with
its square. Rules for file names alone and literal example keys are left out.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TARGET = Path("trust/private/rules/gitleaks.toml")
DROPPED = {
    "pkcs12-file": "a rule for file names",
    "hashicorp-tf-password": 'any `password = "…"`; upstream asks it of Terraform files alone',
    "gcp-api-key": "its list of allowed examples is of literal keys; our own rule stands in",
}
SECRET_GROUPS = {"microsoft-teams-webhook": 0}
"""Rules whose first group is not the secret."""
NEEDS_DIGIT = {"generic-api-key"}
"""gitleaks asks this in its code, not in its configuration."""

_END = r"""(?:[\x60'"\s;]|\\[nr]|$)"""
_END_IN_PROSE = r"""(?=[\x60'"\s;,)\]}<>|*&]|[.:!?](?:\s|$)|\\[nr]|$)"""
_LEAD = r"[\w.-]{0,50}?"
_POSIX = {"[:alnum:]": "a-zA-Z0-9", "[:alpha:]": "a-zA-Z", "[:digit:]": "0-9", "[:xdigit:]": "0-9a-fA-F"}


def to_python(pattern: str) -> str:
    """The pattern with the same meaning for `re` with `re.ASCII`. Raises `re.error` where there is none."""
    for posix, written_out in _POSIX.items():
        pattern = pattern.replace(posix, written_out)
    if "curl" in pattern:
        pattern = pattern.replace(".*", ".{0,300}")
    python = scope_flags(pattern.replace(_END, _END_IN_PROSE).replace(_LEAD, "").replace(r"\z", r"\Z"))
    re.compile(python, re.ASCII)
    return python


def scope_flags(pattern: str) -> str:
    """`a(?i)b|c` as `a(?i:b)|(?i:c)`: in Go a flag holds from where it stands to the end of its group."""
    written = ""
    open_flags: list[list[str]] = [[]]
    for token in _tokens(pattern):
        flag = re.fullmatch(r"\(\?([a-z-]+)\)", token)
        if flag and written:
            open_flags[-1].append(flag[1])
            written += f"(?{flag[1]}:"
        elif token == "|":
            closed = open_flags[-1]
            written += ")" * len(closed) + "|" + "".join(f"(?{flags}:" for flags in closed)
        elif token == ")":
            written += ")" * len(open_flags.pop()) + ")"
        else:
            if token.startswith("(") and not flag:
                open_flags.append([])
            written += token
    return written + ")" * len(open_flags[0])


_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[a-z-]+\)|\(|\)|\||[^\\()\[|]+", re.DOTALL)


def _tokens(pattern: str) -> Iterator[str]:
    for match in _TOKEN.finditer(pattern):
        yield match[0]


def convert(source: bytes, version: str, date: str) -> str:
    """The text of our rule file."""
    config = tomllib.loads(source.decode())
    lines = [
        "# Rules of gitleaks (MIT, see LICENSE.gitleaks), written by `python -m bench.private.import_gitleaks`. Not to",
        "# be edited: rules of our own stand in own.toml.",
        f"source = {json.dumps('https://github.com/gitleaks/gitleaks config/gitleaks.toml')}",
        f"version = {json.dumps(version)}",
        f"imported = {date}",
        f"sha256 = {json.dumps(hashlib.sha256(source).hexdigest())}",
        f"allowed = {_listed(to_python(one) for one in config['allowlist']['regexes'])}",
        f"stopwords = {_listed(config['allowlist']['stopwords'])}",
    ]
    for rule in config["rules"]:
        if rule["id"] not in DROPPED:
            lines += ["", *_rule(rule)]
    return "\n".join(lines) + "\n"


def _rule(rule: dict[str, Any]) -> Iterator[str]:
    yield "[[rules]]"
    yield f"id = {json.dumps(rule['id'])}"
    yield f"regex = {json.dumps(to_python(rule['regex']))}"
    yield f"keywords = {_listed(rule['keywords'])}"
    if "entropy" in rule:
        yield f"entropy = {rule['entropy']}"
    group = SECRET_GROUPS.get(rule["id"], rule.get("secretGroup"))
    if group is not None:
        yield f"group = {group}"
    if rule["id"] in NEEDS_DIGIT:
        yield "needs_digit = true"
    for allowed in rule.get("allowlists", ()):
        if "paths" in allowed:
            continue
        yield "[[rules.allowed]]"
        yield f"target = {json.dumps(allowed.get('regexTarget', 'secret'))}"
        yield f"regexes = {_listed(to_python(one) for one in allowed['regexes'])}"
        if "stopwords" in allowed:
            yield f"stopwords = {_listed(allowed['stopwords'])}"


def _listed(values: Any) -> str:
    return "[" + ", ".join(json.dumps(value) for value in values) + "]"


if __name__ == "__main__":
    path, version, date = sys.argv[1:]
    TARGET.write_text(convert(Path(path).read_bytes(), version, date))
    print(f"wrote {TARGET}")
