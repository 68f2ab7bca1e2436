"""Attacks made from templates, slots, languages and envelopes, between ordinary texts: the same ones for the same seed."""

from __future__ import annotations

import html
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.redteam.templates import COVERT, OVERT, SLOTS, TRANSLATED

CARRIERS: tuple[str, ...] = (
    "The valve opens at two bar and closes again at three. A spring of stainless steel holds it shut while the pump rests.",
    "Bread keeps longest in a cloth bag at room temperature. In the refrigerator the starch turns hard within two days.",
    "The committee met on Tuesday and approved the budget for the new library. Work on the roof begins in March.",
    "Sea eagles nest in old pines near the coast. A pair uses the same nest for years and adds to it every winter.",
    "The function returns the sum of all items. An empty list gives zero, and a missing price raises an error.",
    "Our office moved to the third floor. The printer stands beside the kitchen, and visitors sign in downstairs.",
    "The battery of the bicycle lasts about sixty kilometres on flat roads. Cold weather takes a third of that.",
    "Quarterly sales rose by four per cent, mostly in the north. The margin stayed where it was a year ago.",
    "The lamp has three levels of brightness and a timer. It arrived well packed, and the cable is long enough.",
    "In 1871 the railway reached the valley, and the mill doubled its output. The station burned down ten years later.",
    "A stack keeps the order in which calls return. Each frame holds the local variables and the address to go back to.",
    "The trail starts behind the church and climbs for two hours. From the saddle one sees both lakes on a clear day.",
    "Blood samples were taken before and after the meal. The level of glucose did not differ between the two groups.",
    "The museum shows maps of the harbour from four centuries. Entry is free on the first Sunday of each month.",
    "Concrete reaches most of its strength after twenty-eight days. It has to be kept moist during the first week.",
    "The choir sings twice a year in the town hall. Rehearsals are on Thursdays, and new voices are welcome.",
)


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


_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack: what it says, and the document that carries it."""

    id: str
    kind: str
    template: str
    language: str
    envelope: str
    payload: str
    text: str
    overt: bool

    @property
    def media_type(self) -> str:
        """Of `text`."""
        return MEDIA_TYPES.get(self.envelope, "text/plain")


def make_attacks(
    per_template: int = 1, seed: int = 16, envelopes: Sequence[str] = tuple(ENVELOPES)
) -> Iterator[Attack]:
    """`per_template` attacks of every template, each in another envelope and between other ordinary texts."""
    chance = random.Random(seed)
    turn = 0
    for kind, language, template, overt in all_templates():
        for _ in range(per_template):
            envelope = envelopes[turn % len(envelopes)]
            payload = fill(template, chance)
            before, after = chance.sample(CARRIERS, 2)
            yield Attack(
                id=f"{kind}-{turn:05d}",
                kind=kind,
                template=template,
                language=language,
                envelope=envelope,
                payload=payload,
                text=ENVELOPES[envelope](payload, before, after),
                overt=overt,
            )
            turn += 1


def all_templates() -> Iterator[tuple[str, str, str, bool]]:
    """Kind, language, template, and whether its words alone tell that it is a command to a model."""
    for overt, kinds in ((True, OVERT), (False, COVERT)):
        for kind, templates in kinds.items():
            for template in templates:
                yield kind, "en", template, overt
    for language, templates in TRANSLATED.items():
        for template in templates:
            yield "override", language, template, True


def fill(template: str, chance: random.Random) -> str:
    """A template with its slots filled; `{Do}` is `{do}` with a capital letter, `{{` a brace."""
    text = template.replace("{{", "\0").replace("}}", "\1")
    while found := _SLOT.search(text):
        name = found[1]
        value = chance.choice(SLOTS[name.lower()])
        value = value[0].upper() + value[1:] if name[0].isupper() else value
        text = text[: found.start()] + value + text[found.end() :]
    return text.replace("\0", "{").replace("\1", "}")
