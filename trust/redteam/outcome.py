"""What became of each attack that was handed to an instance: kept out, marked, or handed on as if it were harmless."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import Value
from sluice.contracts.retrieval import RetrievedChunk
from sluice.contracts.trust import Verdict
from sluice.trust.guard.decode import texts_within
from sluice.trust.guard.normalise import normalise
from sluice.trust.redteam.attacks import Attack
from sluice.trust.redteam.channels import Channel

Outcome = Literal["kept out", "warned", "unmarked"]
_WORD = re.compile(r"\w+")
_WORDS_IN_A_ROW = 4
_MOST_EXAMPLES = 5


class Probe(Value):
    """One attack as it is sent: `channel` is its envelope or the way in which it is hidden."""

    id: str
    channel: str
    kind: str
    is_overt: bool
    payload: str


class ChannelReport(Value):
    """Of one channel, how many attacks were sent and what became of them; examples of what came through unmarked."""

    channel: str
    is_overt: bool
    sent: Annotated[int, Field(ge=0)]
    kept_out: Annotated[int, Field(ge=0)]
    warned: Annotated[int, Field(ge=0)]
    unmarked: Annotated[int, Field(ge=0)]
    examples: tuple[str, ...] = ()


class RedTeamReport(Value):
    """Of all channels. `good` says that nothing overt came through unmarked."""

    corpus: str
    channels: tuple[ChannelReport, ...]

    @property
    def good(self) -> bool:
        """Whether nothing overt came through unmarked."""
        return not any(one.unmarked for one in self.channels if one.is_overt)


def probe_of_attack(attack: Attack) -> Probe:
    """An attack in its envelope."""
    return Probe(
        id=f"redteam-{attack.id}",
        channel=attack.envelope,
        kind=attack.kind,
        is_overt=attack.overt,
        payload=attack.payload,
    )


def probe_of_channel(channel: Channel, payload: str, number: int) -> Probe:
    """A hidden command: overt, as no honest page hides one."""
    name = re.sub(r"\W+", "-", channel.name)
    return Probe(
        id=f"redteam-hidden-{name}-{number}", channel=channel.name, kind="hidden", is_overt=True, payload=payload
    )


def outcome_of(probe: Probe, chunks: Iterable[RetrievedChunk]) -> Outcome:
    """What became of an attack whose document was asked for, by the passages that came back."""
    outcome: Outcome = "kept out"
    for chunk in chunks:
        if not holds(chunk.text, probe.payload):
            continue
        if chunk.inspection is None or chunk.inspection.verdict is Verdict.PASSED:
            return "unmarked"
        outcome = "warned"
    return outcome


def holds(text: str, payload: str) -> bool:
    """Whether a text holds some words of a command in a row, seen through disguises; in scripts without spaces, a part."""
    reading = normalise(text)
    wanted = _WORD.findall(normalise(payload).text)
    rows = {" ".join(wanted[at : at + _WORDS_IN_A_ROW]) for at in range(max(1, len(wanted) - _WORDS_IN_A_ROW + 1))}
    for view in (reading, *texts_within(text, reading)):
        words = f" {' '.join(_WORD.findall(view.text))} "
        if any(f" {row} " in words for row in rows):
            return True
    return False


def summarise(corpus: str, outcomes: Sequence[tuple[Probe, Outcome]]) -> RedTeamReport:
    """A row for each channel and for overt and other attacks apart, in the order in which they were sent."""
    rows: dict[tuple[str, bool], list[tuple[Probe, Outcome]]] = {}
    for probe, outcome in outcomes:
        rows.setdefault((probe.channel, probe.is_overt), []).append((probe, outcome))
    return RedTeamReport(
        corpus=corpus,
        channels=tuple(_row(channel, is_overt, found) for (channel, is_overt), found in rows.items()),
    )


def _row(channel: str, is_overt: bool, found: Sequence[tuple[Probe, Outcome]]) -> ChannelReport:
    became = [outcome for _, outcome in found]
    return ChannelReport(
        channel=channel,
        is_overt=is_overt,
        sent=len(found),
        kept_out=became.count("kept out"),
        warned=became.count("warned"),
        unmarked=became.count("unmarked"),
        examples=tuple(probe.payload for probe, outcome in found if outcome == "unmarked")[:_MOST_EXAMPLES],
    )
