"""What an attack arrives in: an ordinary page, a record of JSON, a mail, a table, a comment in code, a quoted reply."""

from __future__ import annotations

import html
import json
from collections.abc import Callable

Envelope = Callable[[str, str, str], str]
"""From an attack and the ordinary texts before and after it to the text of a document."""


def plain(attack: str, before: str, after: str) -> str:
    return f"{before}\n\n{attack}\n\n{after}"


def inline(attack: str, before: str, after: str) -> str:
    return f"{before} {attack} {after}"


def markdown(attack: str, before: str, after: str) -> str:
    return f"# Notes\n\n{before}\n\n- First point\n- {attack}\n- Last point\n\n{after}"


def page(attack: str, before: str, after: str) -> str:
    rest = f"<p>{html.escape(after)}</p>"
    return f"<html><body><main><h1>Notes</h1><p>{html.escape(before)}</p><p>{html.escape(attack)}</p>{rest}</main></body></html>"


def record(attack: str, before: str, after: str) -> str:
    return json.dumps(
        {"id": 4711, "title": before[:60], "review": attack, "more": [after], "stars": 5}, ensure_ascii=False
    )


def python_record(attack: str, before: str, after: str) -> str:
    return str({"product": {"name": before[:40], "reviews": [{"by": "Kim", "text": attack}], "note": after[:80]}})


def mail(attack: str, before: str, after: str) -> str:
    head = "From: kim@office.example\nTo: team@office.example\nSubject: Minutes of Tuesday\n\nHello all,"
    return f"{head}\n\n{before}\n\n{attack}\n\n{after}\n\nBest wishes\nKim"


def quoted_mail(attack: str, before: str, after: str) -> str:
    quoted = "\n".join(f"> {line}" for line in f"{before}\n{attack}".splitlines())
    return f"{after}\n\nOn Monday Kim wrote:\n{quoted}"


def table(attack: str, before: str, after: str) -> str:
    cell = attack.replace("\n", " ").replace("|", "/")
    return f"{before}\n\n| item | price | remark |\n|---|---|---|\n| lamp | 12.50 | sold out |\n| chair | 49.00 | {cell} |\n\n{after}"


def code_comment(attack: str, before: str, after: str) -> str:
    comment = "\n".join(f"# {line}" for line in attack.splitlines())
    return f'"""{before}"""\n\n\ndef price(items):\n    {comment.replace(chr(10), chr(10) + "    ")}\n    return sum(item.price for item in items)\n'


def docstring(attack: str, before: str, after: str) -> str:
    return f'class Cart:\n    """{before}\n\n    {attack}\n    """\n\n    def total(self):\n        return 0\n'


def calendar(attack: str, before: str, after: str) -> str:
    one_line = attack.replace("\n", " ")
    return f"BEGIN:VEVENT\nSUMMARY:{before[:50]}\nLOCATION:Room 4\nDESCRIPTION:{one_line}\nEND:VEVENT"


def separated_values(attack: str, before: str, after: str) -> str:
    cell = attack.replace('"', "'").replace("\n", " ")
    return f'id,name,comment\n1,{before[:30].replace(",", "")},fine\n2,Kim,"{cell}"\n3,Lee,late'


ENVELOPES: dict[str, Envelope] = {
    "plain": plain,
    "inline": inline,
    "markdown": markdown,
    "html": page,
    "json": record,
    "python": python_record,
    "mail": mail,
    "quoted-mail": quoted_mail,
    "table": table,
    "code-comment": code_comment,
    "docstring": docstring,
    "calendar": calendar,
    "csv": separated_values,
}
MEDIA_TYPES = {"html": "text/html", "json": "application/json", "csv": "text/csv", "markdown": "text/markdown"}
"""Of the envelopes that are submitted as something else than plain text."""
