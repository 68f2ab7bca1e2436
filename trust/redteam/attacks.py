"""Attacks made from templates, slots, languages and envelopes: the same ones for the same seed."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sluice.trust.redteam.carriers import CARRIERS
from sluice.trust.redteam.envelopes import ENVELOPES, MEDIA_TYPES
from sluice.trust.redteam.templates import COVERT, OVERT, SLOTS, TRANSLATED

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
