"""Who may speak for a URL: how submissions are named, and what they may replace.

A document's origin is what we know of it, not what it says. The id of a crawled page follows from its address; that of
a submission follows from its sender and the address that it claims, so it never names somebody else's document.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sluice.contracts.document import Provenance, sha256_text
from sluice.trust.source_trust import NO_KEY

_DERIVED = re.compile(r"(doc|sub)_[0-9a-f]{32}")


class Refusal(NamedTuple):
    """Why a document may not take the place of the one that is there, and what would let it in."""

    reason: str
    detail: str
    lifted_by: str


def submission_id_for(submitter: str | None, source: str) -> str:
    """The id of what `submitter` (an API key's id; None where no key was needed) hands in under a URL or a path."""
    return "sub_" + sha256_text(f"{submitter or NO_KEY}\0{source}")[:32]


def is_derived_id(document_id: str) -> bool:
    """Whether an id has the form of those that follow from an address: then a caller may not make it up."""
    return _DERIVED.fullmatch(document_id) is not None


def refusal_to_replace(recorded: Provenance, new: Provenance) -> Refusal | None:
    """Why the new document may not replace the recorded one of the same id; None where it may.

    A submission replaces its own sender's submissions, those of an unknown sender, and nothing else. Where no key was
    needed the sender is the operator of this machine. What this instance fetched or read itself is never refused.
    """
    if new.source != "submission":
        return None
    if recorded.source != "submission":
        what = f"a {recorded.origin} document" if recorded.origin != "file" else "a file"
        return Refusal("other_origin", f"{what} has this id, and a submission never replaces it", _REMEDY)
    if recorded.submitted_by and new.submitted_by and recorded.submitted_by != new.submitted_by:
        return Refusal("other_sender", "another API key handed in the document of this id", _REMEDY)
    return None


_REMEDY = "another id, or none; or delete the document first"
