"""Commands to the reading model itself: to forget what it was told, to be another, to give away or to hide.

A guard that is handed in knows many more, in many languages; these stand for a memory that was opened without one. As
there, a text that speaks *about* such a command, in quotation marks or as an attack, says none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_STANDING = r"(?:previous|prior|above|earlier|preceding|former|existing|original|initial|current|system|your|all|any|other|these|those|safety|developer|old|their|its)"
_ORDERS = r"(?:instructions?|prompts?|rules|guidelines|directives?|directions|commands|orders|constraints|restrictions|messages?|context|policies|programming|training)"
RULES: dict[str, str] = {
    "override": (
        rf"\b(?:ignore|disregard|forget|override|overrule|bypass|discard|do not follow|don't follow|stop following|pay no attention to)\s+(?:(?:the|of|and|or|to|you|my|every|{_STANDING})[\s,]+){{0,6}}(?<![a-z])(?:{_STANDING}[\s,]+(?:\w+[\s,]+)?)(?:{_ORDERS})\b"
        r"|\b(?:ignore|disregard|forget)\s+(?:everything|all|anything)\s+(?:(?:that )?(?:you|i|we|the user|the system)\s+\w+|above|before|said|so far)"
        r"|\b(?:ignore|disregard|forget)\s+(?:(?:all|any|the|every|everything)\s+)*(?:previous|prior|earlier|above)\s*(?:\.{2,}|…|[,;:!]|$|and\b|then\b|stuff|things|\w*\s*\[)"
        r"|\byou are an? \w+ now\b|\byour (?:new|real|actual|true|only) (?:task|instructions?|goal|role|mission|purpose|objective)\s+(?:is|are)\b"
        r"|\byou are (?:now|no longer)\s+(?:an?|the|in|bound|my|dan\b|free|root|admin)\b|\bfrom now on,? you (?:are|will|must|shall|should|act|only)\b"
        r"|\b(?:enter|enable|activate|switch to)\s+(?:developer|jailbreak|dan|god|unrestricted|sudo|debug|admin)\s+mode\b"
        r"|\b(?:these|my|the following) (?:instructions?|orders|rules|commands) (?:take|have|override|supersede|replace)\b"
        r"|\b(?:do not|don't|never|stop)\s+(?:follow(?:ing)?|obey(?:ing)?|heed(?:ing)?)\s+(?:the|any|your|those)\s+(?:\w+\s+)?(?:instructions|rules|guidelines)\s+(?:in|of|from)\s+(?:the\s+)?(?:prompt|system|task|user|developer|agents\.md|claude\.md)"
        r"|\b(?:follow|obey|trust)\s+this\s+(?:learning|note|memory|observation|message)\b|\bthis\s+(?:learning|note|memory|observation|rule|message)\s+(?:has|takes)\s+(?:the\s+)?(?:highest|top|absolute|full)?\s*(?:priority|precedence)\b"
        r"|\boverrid(?:e|es|ing)\s+(?:all|any|every)\s+(?:other|previous|earlier)\s+(?:instructions|rules|learnings|prompts|notes)\b"
        r"|\bthe (?:user|operator|owner|maintainers?|admin(?:istrator)?|developers?|security team|company|reviewer) (?:wants|needs|requires|expects|asks|allows|permits|authori[sz]es|has (?:authori[sz]ed|allowed|approved|asked|instructed|told)) you to\b"
        r"|\byou (?:now )?(?:have|are granted|are given|were given|got) (?:root|admin(?:istrator)?|sudo|unlimited|full (?:access|control|permission|rights))\b(?! (?:in|inside|within) the (?:container|sandbox))"
        r"|\byour (?:\w+ )?(?:restrictions|limits|limitations|guidelines|rules) (?:have been|are|were) (?:now )?(?:lifted|removed|void|disabled|suspended)"
        r"|\b(?:prior|previous|earlier|above|former)\s+(?:guidance|instructions?|prompts?|guidelines|directives?)\s+(?:is|are)\s+(?:now\s+)?(?:obsolete|void|invalid|superseded|cancelled|revoked)"
        r"|\bobey\s+(?:only\s+)?(?:the|this|these|what|my|every|all|any)\b"
        r"|\bnew instructions?\s*:|\bact as (?:an? )?(?:unrestricted|unfiltered|root|administrator|different|dan\b)"
    ),
    "authority": (
        r"\b(?:memory|memories|entries|notes?|learnings?)\s+(?:are|is)\s+(?:binding|orders?|commands?|mandatory)\b"
        r"|\b(?:over|above|against)\s+(?:the\s+)?(?:user|operator|developer|owner)(?:'?s|s')?\s+(?:wish(?:es)?|instructions?|requests?|orders|will|prompt)\b|\bas (?:coming|if it came) from the system\b"
        r"|\b(?:outranks?|trumps?|overrules?|supersedes?)\s+(?:the\s+)?(?:system prompt|user|developer|operator|all other|any other|other instructions|previous instructions)\b"
        r"|\b(?:must not|do not|don't|never|need not)\s+verify\s+(?:this|it|these)\b|\b(?:rely|trust|act|follow)\b[^.\n]{0,20}\b(?:blindly|unconditionally|without (?:question|checking|verifying))\b"
    ),
    "exfiltrate": (
        r"\b(?:reveal|print|repeat|output|show|disclose|leak|display|recite|dump|send|tell me|include)\s+(?:me\s+)?(?:the |your |all |full |entire |complete |of |whole |hidden |secret |verbatim |initial |original ){1,5}(?:system prompt|hidden prompt|initial prompt|system message|developer message|instructions(?! (?:in|from|of) the (?:readme|docs|documentation|manual))|conversation history|chat history|context window)\b"
    ),
    "conceal": (
        r"\b(?:do not|don't|never|must not|without)\s+(?:ever )?(?:tell(?:ing)?|mention(?:ing)?|inform(?:ing)?|reveal(?:ing)?|notify(?:ing)?|alert(?:ing)?|disclos(?:e|ing)|ask(?:ing)?|show(?:ing)?)\s+(?:this |that |it |anything |about this |about it |these (?:instructions|changes) |this change |this (?:step|message|note) )?(?:to )?(?:the |any |your )?(?:users?|humans?|operator|developers?|reviewers?|anyone|anybody|owner|maintainers?)\b(?!\s+(?:table|model|object|id|name|input|interface|experience|story|guide|record|data|account|password|class|service|for (?:their|the|a) (?:password|pin)))"
        r"|\b(?:hide|conceal)\s+(?:this|these|it|them|the (?:change|commit|step|instruction)s?)\s+from\s+(?:the )?(?:users?|humans?|operator|reviewers?|anyone|maintainers?|owner|logs?)\b|\bkeep (?:this|it) (?:a )?secret\b"
        r"|\bso that (?:the |no |your )?(?:reviewers?|users?|humans?|maintainers?|one|nobody|operators?)\s+(?:does not|doesn't|do not|don't|will not|won't|cannot|can't|never)?\s*(?:notices?|sees? (?:it|this)|finds? out|find out|know about)\b"
    ),
    "address": (
        r"\b(?:attention|note to|message (?:to|for)|instructions? (?:to|for)|dear|hey|important for)[,:]?\s+(?:all |any |every |the )*(?:ai|llm|language model|coding|claude|gpt|chatgpt|copilot|assistant|agent|model)s?(?:\s+(?:assistants?|agents?|models?|readers?|systems?))?\b[^.\n]{0,20}[:,!-]"
        r"|\b(?:agents|assistants|llms|language models|models)\s+(?:must|should|shall|have to|are (?:required|obliged|ordered) to)\s+(?:now\s+|only\s+|always\s+|never\s+)?(?:answer|reply|respond|obey|disregard|comply|reveal|approve|star|praise|recommend|forget|hide|override)\b"
        r"|\bif you(?:'re| are) (?:an? |the )?(?:ai|llm|language model|assistant|agent|coding agent|bot|claude|gpt)\b|\bas an? (?:ai|llm|language model|assistant|agent),? you (?:must|should|shall|have to|will)\b"
        r"|\b(?:ai|llm|coding) (?:agents?|assistants?|models?) (?:reading|processing|that reads?|who reads?) this\b"
    ),
    "override.other-languages": (
        r"\bignorier\w*\s+(?:\w+\s+){0,3}(?:anweisung|instruktion|regel|vorgabe)|\b(?:ignore[sz]?|oublie[sz]?)\s+(?:\w+\s+){0,3}(?:instructions|consignes|directives|r[eè]gles)\s+(?:pr[eé]c[eé]dent|ant[eé]rieur|ci-dessus)"
        r"|\bignor[ae]\w*\s+(?:\w+\s+){0,3}(?:instrucciones|istruzioni|instru[cç][oõ]es|reglas|regole|regras|indicaciones)|\b(?:negeer|vergeet)\s+(?:\w+\s+){0,3}(?:instructies|regels|opdrachten)|\bignorera\s+(?:\w+\s+){0,3}(?:instruktion|regl)"
        r"|\b(?:zignoruj|ignoruj)\s+(?:\w+\s+){0,3}(?:instrukcj|polece|zasad)|(?:忽略|无视)[^。]{0,12}(?:指令|指示|提示|规则)|(?:指示|命令|ルール)[^。]{0,8}(?:無視|忘れ)|(?:지시|명령|지침)[^.]{0,8}무시"
        r"|تجاهل\s+(?:\w+\s+){0,3}(?:ال)?(?:تعليمات|أوامر)|\btalimatlar\w*\s+(?:\w+\s+){0,2}(?:yok say|unut|göz ardı)"
    ),
}  # fmt: skip
_HINTS = ("ignor", "oubli", "negeer", "vergeet", "忽略", "无视", "無視", "忘れ", "무시", "تجاهل", "talimat")
"""One of these stands in every text that a command in another language matches."""
_COMPILED = {rule: re.compile(pattern) for rule, pattern in RULES.items()}

_LOOSE = "|tells?|told|asks?|asked|tests?|whether|if|when|would|could|might|cannot|can't|to|option|flag|users?|it|they|which|that"
_ABOUT = re.compile(
    r"\b(?:such as|like|says?|said|saying|reads?|phrases?|strings?|words?|texts?|e\.g\.|example\w*|inject\w*|attack\w*|payload\w*|jailbreak\w*|malicious|adversarial|"
    r"detects?|detect(?:ed|ion)|matches|matched|flags?|flagged|blocks?|blocked|refus\w+|reject\w*|filters?|trick\w*|poison\w*|corpus|contain\w*|called|named|titled|"
    rf"tries|tried|try|attempt\w*{_LOOSE})\b[^.!?\n:]{{0,80}}$"
)
_NAMED = re.compile(_ABOUT.pattern.replace(_LOOSE, ""))
"""Without the words that begin any clause."""
_MARKS = "\"'`“”‘’«»"
_CLAUSE = re.compile(
    r"(?:^|[.!?:;,(\[\])>*#|/=\-–—\n]\s*|\b(?:please|now|and|then|just|must|should|shall|will|always|kindly|first|instead|also|you|simply|immediately|so|but|important|stop)\s+)[\"'`]?$"
)


def find_overrides(text: str) -> Iterator[tuple[str, int, int]]:
    """Rule, start and end of each command to a model in `text`, which is in small letters."""
    for rule, pattern in _COMPILED.items():
        if rule == "override.other-languages" and not any(hint in text for hint in _HINTS):
            continue
        for found in pattern.finditer(text):
            start, end = found.span()
            told_anywhere = rule in ("conceal", "address", "authority")
            if not _is_spoken_about(text, start, end, _NAMED if told_anywhere else _ABOUT) and (
                told_anywhere or _begins(text, start)
            ):
                yield rule, start, end


def _begins(text: str, start: int) -> bool:
    """Whether a clause begins there: "ignore the rules above", not "the option lets users ignore the rules above"."""
    return bool(_CLAUSE.search(text[max(0, start - 60) : start]))


def _is_spoken_about(text: str, start: int, end: int, about: re.Pattern[str]) -> bool:
    sentence = max(text.rfind("\n", 0, start), text.rfind(". ", 0, start), 0)
    before = text[sentence:start]
    quoted = any(before.count(mark) % 2 == 1 and mark in text[end : end + 200] for mark in '"`') or (
        before[-1:] in _MARKS and before[-1:] != "" and any(mark in text[end : end + 200] for mark in _MARKS)
    )
    words_outside = len(re.findall(r"[a-z]{2,}", before)) >= 2
    if quoted and (words_outside or len(re.findall(r"[a-z]{2,}", _after_quote(text, end))) >= 2):
        return True
    return bool(about.search(before)) and not _CLAUSE_STOP.search(before)


_CLAUSE_STOP = re.compile(r"[:;!?\n]\s*[\"'`]?$")


def _after_quote(text: str, end: int) -> str:
    places = [place for mark in _MARKS if (place := text.find(mark, end, end + 200)) >= 0]
    stop = text.find("\n", end)
    return text[min(places) : stop if stop >= 0 else None] if places else ""
