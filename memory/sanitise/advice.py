"""Decides whether a sentence advises a thing, forbids it, or reports that it happened.

"Run `git push --force` to publish" advises; "never run …" forbids; "`git push --force` in the release job dropped two
commits" is an observation, and one worth keeping.
"""

from __future__ import annotations

import re

_FORBIDS = re.compile(
    r"\b(?:never|not|don't|doesn't|didn't|mustn't|shouldn't|can't|cannot|avoid\w*|instead of|rather than|without|forbid\w*|prohibit\w*|no longer|"
    r"refus\w+|reject\w*|block\w*|den(?:y|ies|ied)|prevent\w*|warn\w*|stop(?:ped|s)? (?:using|running)|beware of|danger\w*|protect\w* (?:against|from)|hid)\b"
)
_NO_BAN = re.compile(
    r"\b(?:not|don't|never|can't|cannot)\s+(?:only|just|hesitate|forget|worry|be afraid|be shy|wait|ask|stop|fail|neglect|miss|skip|tell|mention|refuse|avoid)\b"
    r"|\bwithout (?:asking|hesitation|confirmation|review|telling|worry)\b|\bno longer (?:ask|hesitate|wait)\b"
)
"""What forbids nothing, though it has a word of a ban: "do not hesitate to …"."""

_DOER = r"(?:run|use|do|execute|try|call|type|enter|issue|invoke|apply|add|pass|append|paste|export|start with|begin with|prefer|rely on|go for|choose|recommend|repeat|fix (?:it|this|that) (?:by|with|via))"
_BETWEEN = r"(?:(?:os\.system|subprocess\.\w+|exec(?:sync)?|system|shell|sh -c|bash -c)[\s(\[]*[`'\"]+)?(?:(?:the|this|a|an|command|commands|with|of|option|flag|following|line|sudo|as root)\b[\s`'\"$#>(]*)*:?[\s`'\"$#>(]*$"
_DONE = re.compile(
    rf"(?P<before>[a-z']*)(?P<gap>[^a-z]*)\b(?:(?:always|just|simply|first|also|then|safely|quickly|immediately|directly|again)\s+)*(?P<verb>{_DOER}|set|put)[\s`'\"$#>(:]+{_BETWEEN}"
)
_SUBJECTS = frozenset(("i", "we", "they", "who", "which", "did", "does", "would", "people", "that"))
_OPENS = re.compile(r"^\W*(?:on|in|at|with|for|when|if|before|after|to|once|while|during|whenever|as|until|unless)\b")
_TRIED = re.compile(
    r"\b(?:tr(?:y|ies|ied)|attempt\w*|fail\w*|refus\w+|wants?|wanted|asks?|asked|was|were|had|used|seems?|happened|able|unable|tells?|told|programmed)\s(?:\w+\s){0,3}to\s"
)
_LABEL = re.compile(
    r"\b(?:fix|solution|workaround|remedy|answer|trick|tip|lesson|step \d|recipe|way|cure|shortcut|cleanup|best practice)\b[^.;:]{0,40}(?::|\bis(?: to)?\b|=)[\s`'\"$#>(]*(?:sudo\s+)?$"
)
_LEAD = re.compile(
    r"(?:^|[:>,]|\b(?:and|then|please|just|always|simply|first|also|instead|next|must|should|shall|with|via|by)\b)\s*(?:sudo\s+)?[\s`'\"$#>(-]*$"
)
_PRAISED = re.compile(
    r"\b(?:best|better|easiest|easier|quickest|quicker|fastest|faster|simplest|simpler|good|great|recommended|enough|works?|helps?|fix(?:es)?|solves?|safe|fine|okay|ok|permission|permitted|allowed|"
    r"free|welcome|authori[sz]ed|agreed|entitled)\b[^.;]{0,50}\b(?:to|by|is|from|with|of|:)\s*[`'\"]*$|\b(?:wants?|needs?|requires?|expects?)(?: the output of| you to(?: run)?| to run)?\s*[`'\"]*$|\bunless\b[^.;]{0,50}[:,]?\s*[`'\"]*$|\b(?:is|are|gets?) (?:cured|fixed|solved|repaired|resolved) (?:by|with)\s*[`'\"]*$"
)
_HAPPENED = re.compile(
    r"\b(?:broke|broken|fails|failing|ran|was|were|had|causes|lost|overwrote|rewrote|crashes|hung|found|finds|detects?|matches|took|made|left|exits|returns|contains?|runs|calls|uses|invokes|"
    r"removes|deletes|lives|stands|hides|hid|showed|prints|reports|threw|let|flags|asks|parses|treats|escapes|logs|got|went|came|became|hit|sent|kept|"
    r"(?!need|requir|recommend|allow|suppos|fix|solv|resolv|help|work|indeed|speed|feed|exceed|proceed|succeed|embed|red\b|shed|seed)[a-z]{3,}ed|is (?:run|called|used|executed|part of|in))\b"
)
_ENDORSES = re.compile(
    r"^[\s`'\").,]*(?:[/~.$*-]\S*\s+){0,3}(?:(?:on|in|for|against) \S+ )?(?:(?:every|each) \w+ )?(?:\w+ly |then |also |now )?"
    r"(?P<verb>is|are|was|works?|worked|fixe[sd]|solve[sd]|resolve[sd]|help(?:s|ed)?|make[sd]?|gets?|repairs?|restores?|cures?|shows?|tells?|avoids?|speeds?|unblocks?|installs?|removes the|"
    r"to (?:fix|solve|make|get|clean|clear|free|avoid|publish|unblock|speed|pass|reset|resolve|repair|restore|recover|update|install|finish|deploy|merge|save|continue|proceed))\b"
)
_HELPS = re.compile(
    r"\b(?:fixes|solves|cures|resolves|repairs|helps|makes (?:it\b|\w+ (?:quicker|faster|pass|work)|the [\w ]{3,30} (?:go away|pass|work|green))|gets rid of|is (?:needed|required|recommended|the fix|the way))\b"
)
_FAR = 120
"""So far behind a command it may still be praised: its own arguments stand between."""
_PRAISE = re.compile(
    r"\b(?:fix(?:e[sd])?|solve[sd]?|works?|helps?|safe|the fix|required|needed|necessary|recommended|best|harmless|fine|ok|okay|the (?:only )?way|the solution|faster|allowed|how (?:to|you|we))\b"
)

_IS_NOUN = re.compile(r"\s+(?:is|was|are|were|has|had|[a-z]{3,}ed|is (?:run|called|used|executed|part of|in))\b")
"""What follows a command's words where they are a thing: "force push declined"."""
_CLAUSE = re.compile(
    r"(?:^|[,:;(>\]\u2013\u2014-]\s*|\b(?:and|then|please|just|always|simply|first|also|now|instead|next|you|we|agents?|must|should|shall|will|can|could|need to|have to|has to|so|or|"
    r"ought to|best to|better|safe to|ok(?:ay)? to|fine to|easiest to|easier to|is to|try to|remember to|hesitate to|forget to|afraid to|i)\s)[\s`'\"*#$>-]*$"
)


def is_advised(sentence: str, start: int, end: int) -> bool:
    """Whether a sentence, in small letters, advises its reader to run what `sentence[start:end]` says."""
    before, after = sentence[:start], sentence[end:]
    if _is_forbidden(before):
        return False
    if _is_told_to_do(before, after) or _LABEL.search(before) or _PRAISED.search(before) or _is_endorsed(after):
        return True
    happened = _HAPPENED.search(before) or _HAPPENED.search(after) or _FORBIDS.search(after[:60])
    return not happened and bool(_LEAD.search(before))


def is_urged(sentence: str, start: int, end: int) -> bool:
    """As `is_advised`, of a span that begins with its verb: "disable the tests", and not "tried to disable the tests"."""
    before, after = sentence[:start], sentence[end:]
    if _is_forbidden(before):
        return False
    if _PRAISED.search(before) or _is_endorsed(after):
        return True
    is_gerund = sentence[start:end].split(None, 1)[0].endswith("ing")
    return not is_gerund and bool(_CLAUSE.search(before)) and not _IS_NOUN.match(after)


def _is_forbidden(before: str) -> bool:
    return bool(_FORBIDS.search(_NO_BAN.sub(" ", before)))


def _is_told_to_do(before: str, after: str) -> bool:
    """Whether a verb in its plain form stands right before, and not as somebody's deed: "the scripts run …"."""
    found = _DONE.search(before)
    if not found:
        return False
    if found["verb"] in ("set", "put") and _HAPPENED.search(after):
        return False
    if found["before"] == "to":
        return not _TRIED.search(before)
    if any(mark in found["gap"] for mark in ":,;(>.") or not found["before"]:
        return True
    if found["before"] in _SUBJECTS or found["before"].endswith("s"):
        return found["before"] in ("always", "this", "tests") or bool(_OPENS.search(before))
    return True


def _is_endorsed(after: str) -> bool:
    """Whether what follows says that it helps: "… fixes it", "… is the way to go"."""
    found = _ENDORSES.match(after)
    if not found:
        helps = _HELPS.search(after[:_FAR])
        if helps is None or _FORBIDS.search(after[:_FAR]):
            return False
        return not _HAPPENED.search(after[: helps.start()])
    if found["verb"] in ("is", "are", "was"):
        head = after[: found.end() + 30]
        return bool(_PRAISE.search(head)) and not _FORBIDS.search(head)
    return not (found["verb"].startswith("to ") and _HAPPENED.search(after))
