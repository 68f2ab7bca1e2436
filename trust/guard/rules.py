"""The strict rules: texts that command a language model, whatever the page is about.

A rule names what was found, and a span. Whether the text *says* it or speaks *about* it is decided in `mention`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from trust.guard.normalise import Reading
from trust.guard.phrases import COMPACT_OVERRIDE, OVERRIDES


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern over normalised text. `group` names the kind of reason: two rules of a group are one reason."""

    name: str
    group: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()
    """One of these stands in every text that the pattern matches; empty: the pattern is tried on every text."""
    is_command: bool = False
    """Whether the match has to begin a clause: "ignore the rules above", not "to ignore the rules above"."""


@dataclass(frozen=True, slots=True)
class Match:
    """Where a rule matched a reading."""

    rule: Rule
    start: int
    end: int


def find_matches(reading: Reading) -> Iterator[Match]:
    """Every first match of a rule in a reading, whether said or quoted; all matches of the rules that may repeat."""
    text = reading.text
    for rule in RULES:
        if rule.hints and not any(hint in text for hint in rule.hints):
            continue
        for found in rule.pattern.finditer(text):
            if not rule.is_command or _begins_clause(text, found.start()):
                yield Match(rule, found.start(), found.end())


_CLAUSE = re.compile(
    r"(?:^|[.!?:;,\n\r\t>*#\"'“”‘’«»`(\[{|/=\-–—_\\]|\b(?:please|now|and|then|just|must|should|shall|will|can|could|to|also|simply|"
    r"always|kindly|first|instead|immediately|hereby|would|so|but|or|assistant|ai|user|system|important|attention|stop|you|yes|ok|okay|"
    r"hello|hi|hey|need|want|try|let's|i|we|do|not|from|by))\s*$"
)
_THIRD_PERSON = re.compile(
    r"\b(?:it|they|which|that|this|he|she|who|option|flag|command|settings?|rules?|browsers?|users)\s+(?:\w+\s+)?$"
)


def _begins_clause(text: str, start: int) -> bool:
    before = text[max(0, start - 60) : start]
    return not before.strip() or (bool(_CLAUSE.search(before)) and not _THIRD_PERSON.search(before))


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(unicodedata.normalize("NFKC", character) for character in pattern))


_HINTS = {
    "en": ("ignor", "disregard", "forget", "overrid", "bypass", "attention", "heed", "follow", "obey", "obeying", "comply",
           "adher", "listen", "discard", "neglect", "set aside", "cancel", "drop", "erase", "wipe", "abandon", "supersede",
           "delete", "reset", "clear"),
    "de": ("ignorier", "missacht", "vergiss", "vergessen", "verwirf", "befolge", "schreib", "beachte"),
    "fr": ("ignor", "oubli", "compte", "neglige", "ne sui"),
    "es": ("ignor", "olvid", "descart", "caso omiso", "no sigas", "obede"),
    "it": ("ignora", "dimentica", "trascura", "non seguire"),
    "pt": ("ignor", "esque", "desconsider", "desobede"),
    "nl": ("negeer", "vergeet", "sla over", "volg niet"),
    "pl": ("ignoruj", "zapomnij", "pomin", "nie wykonuj"),
    "sv": ("ignorera", "glom", "bortse", "strunta"),
    "tr": ("talimat", "komut", "yonerge", "kural"),
}  # fmt: skip

_PEOPLE = r"(?:the user|users?|anyone|anybody|the human|the reader|the customer|the operator|them|him|her|people)"
_SECRETS = (
    r"(?:system prompt|hidden prompt|initial prompt|original prompt|(?:system|initial|hidden|original|secret|confidential|internal) instructions?|"
    r"developer message|conversation history|chat history|(?:entire|full|whole|previous|this|our) (?:conversation|chat|context)|context window)"
)
_HERS = r"(?:user'?s?'?s?|customer'?s|reader'?s|victim'?s|their|your user'?s)"
_TARGET = r"(?:https?://|www\.|[\w.+-]+@[\w-]+\.|the (?:following|below) (?:url|address|e-?mail|link|endpoint|server|webhook))"
_MODEL = r"(?:a\.?i\.?|llms?|language models?|large language models?|(?:ai |virtual |helpful )?assistants?|chat ?bots?|(?:ai |autonomous |llm )agents?|chatgpt|gpt(?:-\d\w*)?|claude|gemini|copilot|(?:ai |llm )?crawlers|models? reading)"
_REPLY = r"(?:summar|answer|respon|reply|recommend|say\b|tell|output|includ|ignor|rank|state|mention|print|append|insert|write|add\b|rate|approve|praise|refus|stop|do not|don't|must|visit|click|send|call|execute|run\b|translate|end (?:your|each|every))"

RULES: tuple[Rule, ...] = (
    *(
        Rule(f"override.{language}", "override", _compiled(pattern), _HINTS.get(language, ()), language == "en")
        for language, patterns in OVERRIDES.items()
        for pattern in patterns
    ),
    Rule("override.compact", "override", re.compile(COMPACT_OVERRIDE), ("ignore", "disregard", "forget", "override", "bypass")),
    Rule(
        "override.new-task", "override",
        re.compile(
            r"\b(?:your (?:new|real|actual|true|only|updated|next) (?:task|instructions?|objective|goal|mission|job|purpose|role|directive|orders?)\s+(?:is|are|will be|from now on)\b"
            r"|(?:here are|these are|follow|receive|execute|obey) (?:your |my |the |these |only )*(?:new|updated|real|actual|true|following new) (?:instructions|orders|directives|rules)\b"
            r"|never ?mind (?:what|whatever|everything) (?:the |your )?(?:developers?|system|user|operator|company|creators?|prompt|instructions) (?:said|says?|told|wrote|wants?|asked|gave)"
            r"|new (?:system )?instructions?(?: (?:for|to) (?:the )?(?:assistant|ai|model|llm|agent|chatbot|bot))?\s*:\s"
            r"|(?:the|all) (?:instructions|text|prompt|directions)(?: (?:above|before this|given above|so far))? (?:was|were|is|are) (?:just )?(?:a test|fake|wrong|void|cancelled|outdated|no longer valid|obsolete|superseded|a joke)"
            r"|from (?:now|this point|here) on(?:ward|wards)?,? (?:you (?:are|will|must|shall|should|act|only|have)|your (?:name|role|answers?|replies|responses?)|(?:answer|respond|reply|speak|act) (?:only|as|in|with|to)))"
        ),
        ("your ", "mind ", "instruction", "orders", "directives", "rules", "from now", "from this", "from here", "the text", "prompt", "directions"),
    ),
    Rule(
        "persona", "override",
        re.compile(
            r"\byou(?:'re| are) (?:now|no longer) (?:(?:a|an|the|in|my|acting as|operating as|to act as|entering|called|known as|going to be)\s+)?(?:\w+[ -]){0,4}?"
            r"(?:dan\b|jailbroken|unrestricted|unfiltered|uncensored|(?:developer|debug|god|admin|maintenance|sudo|root|dan|jailbreak|unrestricted) mode|"
            r"a\.?i\.?\b|assistant|chatbot|language model|bound by|evil\w*|hacker|bot\b|persona|pirate|agent\b)"
            r"|\b(?:you (?:can|may|will|now)|dan can|ai that can) do anything now\b|\b(?:enter|enable|activate|switch (?:in)?to) (?:developer|jailbreak|dan|god|unrestricted|sudo) mode\b"
            r"|\b(?:pretend|act|behave|imagine|roleplay|respond|answer) (?:as if |as though |like |that |as |to be )?(?:you (?:are|were|have|had) )?(?:an? )?(?:unrestricted|unfiltered|uncensored|jailbroken|evil|no (?:restrictions|rules|limits|guidelines|filters?))\b"
        ),
        ("you are", "you're", "anything now", " mode", "pretend", "act ", "behave", "imagine", "roleplay", "respond", "answer"),
    ),
    Rule(
        "role-mark.token", "role-mark",
        re.compile(
            r"<\|\s*(?:im_start|im_end|im_sep|system|user|assistant|endoftext|end_of_text|start_header_id|end_header_id|eot_id|begin_of_text|message|channel|end|tool_call|tool)\s*\|>"
            r"|\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>|</?(?:system|assistant)(?:[_-](?:prompt|message|instructions?|override))?>|\[/?(?:system|assistant)(?: (?:prompt|message|override|note))?\]\s*[:(]?"
            r"|\[system\]\(#\w+\)|<\|?(?:begin|end)▁of▁\w+\|?>"
        ),
        ("<|", "[inst]", "[/inst]", "<<", "_of_turn", "system", "assistant", "▁"),
    ),
    Rule(
        "role-mark.turn", "role-mark",
        re.compile(
            r"(?:^|\n)[ \t>*/#;|\-]*(?:\*\*)?(?:#{2,4} ?)?(?:system|assistant|developer|ai|system (?:message|prompt|override|note|update|notice|instruction)s?|###? ?(?:system|instructions?|response|human|assistant))\s*(?:\*\*)?\s*:(?:\*\*)?\s*"
            r"[^\n]{0,80}?\b(?:you (?:are|must|will|should|shall|have)|your (?:task|role|job|instructions?|new)|ignore|disregard|forget|sure[,!.]|understood|certainly|i will|i have been|i am now|from now on|do not (?:tell|reveal|mention)|override|new instructions?|the user (?:has|is|wants|asked|requested)|comply)"
        ),
        ("system", "assistant", "developer", "ai", "###"),
    ),
    Rule(
        "role-mark.frame", "role-mark",
        re.compile(
            r"(?:-{3,}|={3,}|#{3,}|\*{3,}|\[|<|\()\s*(?:begin|start|end)(?: of)?(?: the| new)? (?:system|admin|developer|user|user'?s|original|assistant|retrieved|untrusted|context|document|prompt)\s*(?:prompts?|messages?|instructions?|overrides?|input|query|data|documents?|context|text)?\s*(?:-{3,}|={3,}|#{3,}|\*{3,}|\]|>|\))"
        ),
        ("begin", "start", "end"),
    ),
    Rule(
        "exfiltrate.prompt", "exfiltrate",
        re.compile(
            rf"\b(?:reveal|print|repeat|output|show|disclose|leak|display|send|post|forward|email|e-mail|transmit|upload|exfiltrate|copy|paste|append|include|recite|dump|write out|tell (?:me|us))\s+"
            rf"(?:me |us )?(?:the |your |all |of |back |verbatim |out |any |a copy of |contents? |text |full |entire ){{0,6}}{_SECRETS}\b"
        ),
        ("prompt", "instruction", "conversation", "chat", "context", "developer message"),
        True,
    ),
    Rule(
        "exfiltrate.user", "exfiltrate",
        re.compile(
            rf"\b(?:send|post|forward|e-?mail|transmit|upload|exfiltrate|leak|submit|deliver|copy|share)\s+(?:\w+ ){{0,4}}?"
            rf"(?:(?:all |any |of |the |every )*{_HERS}\s+[^.\n]{{0,60}}?|(?:all |any )(?:of )?(?:the )?(?:emails?|passwords?|credentials|api keys?|secrets|tokens|cookies|contacts|files|documents|private data|personal data)[^.\n]{{0,40}}?)\bto\s+{_TARGET}"
        ),
        ("send", "post", "forward", "mail", "transmit", "upload", "exfiltrate", "leak", "submit", "deliver", "copy", "share"),
        True,
    ),
    Rule(
        "exfiltrate.image", "exfiltrate",
        re.compile(
            r"!\[[^\]\n]*\]\(\s*https?://[^)\s]*(?:\{|\[|<|%7b|\$|(?:data|q|query|secret|conversation|history|prompt|summary|info)=(?:\{|\[|<|%7b|your|the|user|insert|conversation|base64))[^)\n]*\)"
            rf"|\b(?:render|insert|include|output|add|display|embed) (?:an? |the |this )?(?:markdown )?(?:image|link|img)\b[^.\n]{{0,80}}(?:{_SECRETS}|{_HERS} )"
        ),
        ("![", "image", "link", "img"),
    ),
    Rule(
        "conceal", "conceal",
        re.compile(
            rf"\b(?:do not|don't|never|must not|should not|shall not|without)\s+(?:ever )?(?:tell(?:ing)?|mention(?:ing)?|inform(?:ing)?|reveal(?:ing)?|notify(?:ing)?|alert(?:ing)?|disclos(?:e|ing)|say(?:ing)?|let(?:ting)?)\s+"
            rf"(?:(?:{_PEOPLE}|to {_PEOPLE})\s+(?:\w+\s+){{0,3}}?(?:about |of |that )?(?:this|these|you|the (?:instruction|injection|hidden|above|message|change|real))\b"
            rf"|(?:about )?(?:this|these|that|the|any|it)\b(?:\s+\w+){{0,4}}?\s+to {_PEOPLE}\b"
            r"|(?:(?:that|about) )?(?:this|these|the|any|your) (?:hidden |secret |new |above |system )?(?:instructions?|injection|prompts?|directives?|orders?)\b)"
            rf"|\b(?:keep|hide|conceal) (?:this|these|it|them|the (?:instructions?|change|message))(?: \w+){{0,3}}? (?:secret |hidden )?from {_PEOPLE}\b"
        ),
        ("tell", "mention", "inform", "reveal", "notify", "alert", "disclos", "say", "let", "keep", "hide", "conceal"),
    ),
    Rule(
        "tool-call.markup", "tool-call",
        re.compile(r"</?(?:tool_call|function_calls?|tool_use|invoke|antml:\w+)\b[^>\n]{0,80}>|<\|(?:tool_call|python_tag|tool)[^>\n]{0,20}\|>"),
        ("tool_", "function_call", "invoke", "antml", "python_tag", "<|tool"),
    ),
    Rule(
        "tool-call.command", "tool-call",
        re.compile(
            rf"\b(?:you (?:must|should|need to|have to|will|shall)(?: now| first| immediately| always)? |please |assistant[,:]? |ai[,:]? )(?:call|use|invoke|run|execute|trigger)\s+(?:the |your )?[`'\"]?\w+[`'\"]?\s+(?:tool|function|plugin|action)\b"
            rf"|\b(?:use|call|invoke) your (?:\w+ ){{0,2}}(?:tools?|functions?|plugins?|browser|email|shell|terminal|file access) (?:to|and|with)\b"
            rf"|\b(?:call|invoke|execute|trigger)\s+(?:the )?[`'\"]?[a-z]+_[a-z_]+[`'\"]?\s+(?:tool|function|plugin|action)?\s*with (?:the )?(?:arguments?|parameters?|recipient|input|to)\b[^.\n]{{0,60}}(?:{_TARGET}|password|transfer|delete|\$)"
        ),
        ("call", "use", "invoke", "run", "execute", "trigger"),
    ),
    Rule(
        "address", "address",
        re.compile(
            rf"(?:\b(?:attention|note|message|notice|warning|instructions?|important|memo|dear|hey|hello|to|for)\b[,:!]?\s+(?:message\s+)?(?:to |for )?(?:all |any |every |the )*(?:{_MODEL} (?:and|or) )?{_MODEL}\b(?: (?:reading|processing|summari[sz]ing|crawling|that|who|which|indexing|using|parsing)[^.:!\n]{{0,60}})?\s*[:,!.\-–—]+\s*[^\n]{{0,120}}?\b{_REPLY}"
            rf"|\bif you(?:'re| are) (?:an? |the )?(?:\w+ )?{_MODEL}\b[^.\n]{{0,60}}?[,:;\-–—]?\s*(?:then |you |please )*[^.\n]{{0,60}}\b{_REPLY}"
            rf"|\b(?:when|if|before|while|after) (?:you(?:'re| are)? )?(?:are )?(?:asked to )?(?:summari[sz](?:e|ing)|answer(?:ing)?|process(?:ing)?|read(?:ing)?|analy[sz](?:e|ing)|respond(?:ing)? to) (?:this|the) (?:page|document|text|content|email|message|website|article|site|file|passage|question|user)[^.\n]{{0,40}}[,:]\s*(?:please |you )?(?:always |also |must |should |only |do not |don't |never )*(?:say|tell|state|output|include|recommend|mention|append|respond|reply|answer|insert|add|write|ignore|send|call|print|rate|end with|begin with|claim)\b)"
        ),
        ("ai", "llm", "language model", "assistant", "chatbot", "chat bot", "agent", "gpt", "claude", "gemini", "copilot", "a.i", "model", "page", "document", "text", "content", "mail", "message", "website", "article", "site", "file", "passage", "question", "user"),
    ),
)  # fmt: skip
"""By name. The names stand in findings, and in what an operator reads."""
