"""Words of a passage that need proof before they may be repeated as true.

A sentence that denies a claim, asks for it or reports that an authority objected to it makes none. The rules say which
words regulators ask proof for; whether there is proof is not known here.
"""

from __future__ import annotations

import re

from sluice.contracts.profiles.insights import Claim
from sluice.trust.marketing.rules_file import claim_rules

MOST_CLAIMS = 10
"""Of one passage: more say no more."""
_SENTENCES = re.compile(r"[^.!?\n]*(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?\n]?")


def find_claims(text: str) -> tuple[Claim, ...]:
    """The claims of a passage in reading order, each rule once for a sentence."""
    rules, found = claim_rules(), []
    for sentence in filter(str.strip, _SENTENCES.findall(text)):
        met = [(one, match) for one in rules.claims if (match := one.pattern.search(sentence))]
        met = [(one, match) for one, match in met if not rules.denied.pattern.search(sentence[: match.start()])]
        if not met or rules.reported.pattern.search(sentence.strip()):
            continue
        evidence = rules.evidence.pattern.search(sentence) is not None
        for one, match in sorted(met, key=lambda entry: entry[1].start()):
            found.append(
                Claim(
                    rule=one.rule,
                    text=" ".join(match[0].split()),
                    needs=one.needs,
                    source=rules.sources[one.source],
                    cites_evidence=evidence,
                )
            )
    return tuple(found[:MOST_CLAIMS])
