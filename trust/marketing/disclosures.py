"""Whether a passage that speaks for a brand says so.

A clear mark (`#ad`, "sponsored by") is enough. Without one, a sign that the passage advertises (a promotion code, an
affiliate link, a tie it tells of) means that the disclosure is missing, or unclear where only an ambiguous mark is
there. A passage is a part of a page: a disclosure elsewhere on the page is not seen, so `missing` says "look there".
"""

from __future__ import annotations

import re

from sluice.contracts.profiles.insights import Disclosure
from sluice.trust.marketing.rules_file import Sign, disclosure_rules

MOST_SHOWN_CHARACTERS = 120


def check_disclosure(text: str) -> Disclosure | None:
    """The disclosure of a passage; None where nothing shows that it speaks for a brand."""
    rules = disclosure_rules()
    clear = _first(text, [mark for mark in rules.marks if mark.clear])
    if clear:
        return _disclosure("marked", *clear)
    ambiguous = _first(text, [mark for mark in rules.marks if not mark.clear])
    sign = _first(text, rules.signs)
    if ambiguous:
        return _disclosure("unclear", *ambiguous)
    return _disclosure("missing", *sign) if sign else None


def _first(text: str, signs: list[Sign] | tuple[Sign, ...]) -> tuple[Sign, re.Match[str]] | None:
    return next(((sign, match) for sign in signs if (match := sign.pattern.search(text))), None)


def _disclosure(status: str, sign: Sign, match: re.Match[str]) -> Disclosure:
    shown = " ".join(match[0].split())[:MOST_SHOWN_CHARACTERS]
    source = disclosure_rules().sources[sign.source]
    return Disclosure.model_validate({"status": status, "text": shown, "rule": sign.rule, "source": source})
