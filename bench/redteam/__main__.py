"""Writes the file of attacks that `sluice eval redteam` sends: every template in an envelope, every hidden channel.

python -m bench.redteam trust/redteam.jsonl                                # the file that is shipped
python -m bench.redteam more.jsonl --per-template 3 --payloads 10          # more of each, for --attacks
"""

from __future__ import annotations

import argparse
import base64
import random
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from bench.redteam.attacks import CARRIERS, fill, make_attacks
from bench.redteam.channels import CHANNELS, SEEN
from bench.redteam.templates import OVERT
from sluice.contracts.api import SubmittedDocument
from sluice.trust.redteam import SHIPPED, Attack


def to_line(attack: Attack) -> str:
    """The attack as a line of a file."""
    return attack.model_dump_json(exclude_defaults=True) + "\n"


def all_attacks(per_template: int = 1, payloads: int = 3) -> Iterator[Attack]:
    """`per_template` attacks of every template, then `payloads` commands in every channel that needs no browser."""
    yield from _in_envelopes(per_template)
    yield from _hidden(payloads)


def _in_envelopes(per_template: int) -> Iterator[Attack]:
    for made in make_attacks(per_template):
        attack_id = f"redteam-{made.id}"
        is_html = made.media_type == "text/html"
        document = SubmittedDocument(
            id=attack_id,
            text=None if is_html else made.text,
            html=made.text if is_html else None,
            media_type=None if is_html else made.media_type,
            metadata={"redteam": attack_id},
        )
        yield Attack(
            channel=made.envelope,
            kind=made.kind,
            is_overt=made.overt,
            payload=made.payload,
            question=CARRIERS[0],
            document=document,
        )


def _hidden(payloads: int) -> Iterator[Attack]:
    """A hidden command is overt: no honest page hides one."""
    chance = random.Random(16)
    templates = [*OVERT["override"], *OVERT["address"], *OVERT["conceal"]]
    commands = [fill(templates[number % len(templates)], chance) for number in range(payloads)]
    for channel in CHANNELS:
        if channel.rendered:
            continue
        for number, command in enumerate(commands):
            attack_id = f"redteam-hidden-{re.sub(r'[^a-zA-Z0-9_]+', '-', channel.name)}-{number}"
            document = SubmittedDocument(
                id=attack_id,
                title=command if channel.fact == "title" else None,
                url=f"https://redteam.example/{quote(command)}" if channel.fact == "url" else None,
                file_path=command if channel.fact == "file_path" else channel.path and f"redteam/{attack_id}.py",
                data=base64.b64encode(channel.build(command)).decode(),
                media_type=channel.media_type,
                metadata={"redteam": attack_id},
            )
            yield Attack(
                channel=channel.name,
                kind="hidden",
                is_overt=True,
                payload=command,
                question=SEEN[:200],
                document=document,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", default=SHIPPED)
    parser.add_argument("--per-template", type=int, default=1)
    parser.add_argument("--payloads", type=int, default=3)
    given = parser.parse_args()
    lines = [to_line(attack) for attack in all_attacks(given.per_template, given.payloads)]
    given.file.write_text("".join(lines), encoding="utf-8")
    print(f"{len(lines)} attacks in {given.file}")


if __name__ == "__main__":
    main()
