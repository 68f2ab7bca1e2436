"""Whether a sentence advises a thing, forbids it, or tells that it happened.

"Run `git push --force` to publish" advises; "never run …" forbids; "`git push --force` in the release job dropped two
commits" is an observation, and one worth keeping.
"""

from __future__ import annotations

import re

_DOER = (
    r"(?:run|runs?|use|do|execute|try|call|type|enter|issue|invoke|apply|add|set|pass|put|append|paste|start(?: with)?|begin with|"
    r"prefer|rely on|go for|choose|consider|recommend|remember|repeat|fix(?:ed)? (?:it |this |that )?(?:by|with|via))"
)
_URGE = re.compile(
    rf"(?:^|[,:;(>\]\u2013\u2014-]\s|\b(?:and|then|or|else|please|just|always|simply|first|also|now|instead|next|you|we|agents?|must|should|shall|will|can|could|"
    rf"may|need(?:s|ed)? to|ha(?:ve|s) to|want to|ought to|better|safe to|ok(?:ay)? to|fine to|best to|allowed to|easiest to|recommended to|is to|to|do not (?:hesitate|forget|be afraid) to|don't (?:hesitate|forget|be afraid) to))"
    rf"[\s`'\"]*(?:(?:always|just|simply|first|also|then|safely|quickly|immediately|directly)\s+)*{_DOER}\s*(?:(?:the|this|a|an|command|commands|with|of|option|flag|following|line|sudo)\b\s*)*:?[\s`'\"$#>(]*$"
)
"""What stands directly before a command that the sentence advises."""
_LEAD = re.compile(
    r"(?:^|\b(?:fix|solution|workaround|remedy|answer|trick|tip|lesson|step \d|note|todo|cleanup|recipe|command|way|cure)\b[^.;:]{0,40}(?::|\bis(?: to)?\b|=)"
    r"|[:>]|\b(?:and|then|please|just|always|simply|first|also|instead|next|must|should|shall|with|via|by)\b)\s*(?:sudo\s+)?[\s`'\"$#>(-]*$"
)
_FORBIDS = re.compile(
    r"\b(?:never|not|don't|doesn't|didn't|must ?n[o']t|shouldn't|can't|cannot|avoid\w*|instead of|rather than|without|forbid\w*|prohibit\w*|no longer|"
    r"refus\w+|reject\w*|block\w*|den(?:y|ies|ied)|prevent\w*|warn\w*|stop(?:ped|s)? (?:using|running)|beware of|danger\w*|protect\w* (?:against|from))\b"
)
_NO_BAN = re.compile(
    r"\b(?:not|don't|never|can't|cannot)\s+(?:only|just|hesitate|forget|worry|be afraid|be shy|wait|ask|stop|fail|neglect|miss|skip|tell|mention|refuse|avoid)\b|\b(?:without) (?:asking|hesitation|confirmation|review|telling|worry)\b"
)
_HAPPENED = re.compile(
    r"\b(?:deleted|removed|wiped|broke|broken|failed|fails|failing|ran|was|were|had|caused|causes|destroyed|lost|overwrote|rewrote|denied|refused|rejected|blocked|"
    r"crashed|crashes|hung|killed|happened|tried|attempted|executed|found|finds|detects?|matches|matched|dropped|took|made|left|erased|emptied|exited|exits|needed|returned|returns|"
    r"contains?|contained|runs|calls|called|used|uses|invoked|invokes|removes|deletes|lives|stands|hides|hid|showed|shows|printed|prints|reported|reports|"
    r"added|committed|introduced|leaked|exposed|disabled|skipped|is flagged|flags|flagged|asks|asked|parses|treats|escapes|logs|logged)\b"
)
_ENDORSES = re.compile(
    r"^[\s`'\").,]*(?:on \S+ |in \S+ )?(?:\w+ly |then |also |now )?(?:is|are|was|works?|worked|fixe[sd]|solve[sd]|resolve[sd]|help(?:s|ed)?|make[sd]? (?:it|the|ci|tests?)|gets? (?:rid|it|the|ci)|"
    r"to (?:fix|solve|make|get|clean|clear|free|avoid|publish|unblock|speed|pass|reset|resolve|repair|restore|recover|update|install|finish|deploy|merge|save))\b"
)
_PRAISE = re.compile(r"\b(?:fix(?:e[sd])?|solve[sd]?|resolve[sd]?|works?|worked|helps?|helped|safe|the fix|required|needed|necessary|recommended|best|harmless|fine|ok|okay|the way|solution|faster|allowed)\b")  # fmt: skip
_QUESTION = re.compile(r"\?\s*$")


def is_advised(sentence: str, start: int, end: int) -> bool:
    """Whether a sentence, in small letters, advises its reader to do what `sentence[start:end]` says."""
    before, after = sentence[:start], sentence[end:]
    bans = _FORBIDS.search(_NO_BAN.sub(" ", before))
    if bans:
        return False
    if _URGE.search(before):
        return True
    if _endorsed(after):
        return True
    happened = _HAPPENED.search(before) or _HAPPENED.search(after)
    if happened or _FORBIDS.search(after[:60]):
        return False
    return bool(_LEAD.search(before))


def is_urged(sentence: str, start: int, end: int) -> bool:
    """As `is_advised`, where the span itself begins with the verb: "disable the tests", and not "to disable the tests"."""
    before, after = sentence[:start], sentence[end:]
    if _FORBIDS.search(_NO_BAN.sub(" ", before)):
        return False
    return bool(_CLAUSE.search(before)) or _endorsed(after)


_CLAUSE = re.compile(
    r"(?:^|[,:;(>\]\u2013\u2014-]\s*|\b(?:and|then|please|just|always|simply|first|also|now|instead|next|you|we|agents?|must|should|shall|will|can|could|need to|have to|has to|"
    r"ought to|best to|better|safe to|ok(?:ay)? to|fine to|easiest to|easier to|is to|try to|remember to|hesitate to|forget to|afraid to|i)\s)[\s`'\"*#$>-]*$"
)


def _endorsed(after: str) -> bool:
    found = _ENDORSES.match(after)
    if not found:
        return False
    head = after[: found.end() + 30]
    if re.match(r"[\s`'\").,]*(?:\w+ly |then |also |now )?(?:is|are|was)\b", head):
        return bool(_PRAISE.search(head)) and not _FORBIDS.search(head)
    return True
