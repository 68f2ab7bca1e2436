"""The strict rules: texts that command a language model, whatever the page is about.

A rule names what was found, and a span. Whether the text *says* it or speaks *about* it is decided in `mention`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from sluice.trust.guard.normalise import Reading
from sluice.trust.guard.phrases import COMPACT_OVERRIDE, OVERRIDES


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
    "en": ("ignor", "disregard", "forget", "overrid", "bypass", "skip", "answer", "attention", "heed", "follow", "obey", "obeying", "comply",
           "adher", "listen", "discard", "neglect", "set aside", "cancel", "drop", "erase", "wipe", "abandon", "supersede",
           "delete", "reset", "clear"),
    "de": ("prompt", "systemanweisung", "ab jetzt", "ab sofort", "ignorier", "missacht", "vergiss", "vergessen", "verwirf", "befolge", "schreib", "beachte"),
    "fr": ("prompt", "systeme", "tu es", "vous etes", "ignor", "oubli", "compte", "neglige", "ne sui"),
    "es": ("prompt", "sistema", "a partir de ahora", "ignor", "olvid", "descart", "caso omiso", "no sigas", "obede"),
    "it": ("prompt", "sistema", " sei un", "ignora", "dimentica", "trascura", "non seguire"),
    "pt": ("prompt", "sistema", "voce", "ignor", "esque", "desconsider", "desobede"),
    "nl": ("prompt", "vanaf nu", "negeer", "vergeet", "sla over", "volg niet"),
    "pl": ("ignoruj", "zapomnij", "pomin", "nie wykonuj"),
    "sv": ("ignorera", "glom", "bortse", "strunta"),
    "tr": ("talimat", "komut", "yonerge", "kural"),
    "ru": ("инструкц", "указани", "команд", "правил", "распоряжени", "промпт", "забудь", "не обращай", "теперь ты"),
    "uk": ("інструкц", "вказівк", "команд", "правил"),
    "zh": ("忽", "无视", "無視", "忘", "不要", "不理会", "抛弃", "现在", "提示"),
    "ja": ("指示", "命令", "プロンプト", "ルール", "指令", "説明"),
    "ko": ("지시", "명령", "지침", "프롬프트", "규칙", "안내", "무시"),
    "ar": ("تجاهل", "انس", "اهمل", "أهمل", "لا تتبع"),
    "hi": ("निर्देश", "आदेश", "नियम", "अनुदेश"),
}  # fmt: skip

_PEOPLE = r"(?:the user|users?|anyone|anybody|the human|the reader|the customer|the operator|them|him|her|people)"
_SECRETS = (
    r"(?:system prompt|hidden prompt|initial prompt|original prompt|(?:system|initial|hidden|original|secret|confidential|internal) instructions?|"
    r"(?:your|its) (?:own |hidden |initial |original |secret |full |exact |current ){0,2}(?:instructions|rules|guidelines|prompts?|directives|programming|system messages?)|text of your (?:system )?(?:message|prompt)|"
    r"developer message|conversation history|chat history|(?:entire|full|whole|previous|this|our) (?:conversation|chat|context)|context window)"
)
_HERS = r"(?:user'?s?'?s?|customer'?s|reader'?s|victim'?s|their|your user'?s)"
_TARGET = r"(?:https?://|www\.|[\w.+-]+@[\w-]+\.|the (?:following|below) (?:url|address|e-?mail|link|endpoint|server|webhook))"
_MODEL = r"(?:a\.?i\.?|llms?|language models?|large language models?|(?:ai |virtual |helpful )?assistants?|chat ?bots?|(?:ai |autonomous |llm )agents?|chatgpt|gpt(?:-\d\w*)?|claude|gemini|copilot|(?:ai |llm )?crawlers|models? reading)"
_REPLY = r"(?:summar|answer|respon|reply|recommend|say\b|tell|output|includ|ignor|rank|state|mention|print|append|insert|write|add\b|whenever|when (?:the user|asked)|praise|quote|rate|approve|praise|refus|stop|do not|don't|must|visit|click|send|call|execute|run\b|translate|end (?:your|each|every))"

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
            r"|(?:the|all|any) (?:above |previous |prior |earlier )?(?:instructions|text|prompt|directions)(?: (?:above|before this|given above|so far))? (?:was|were|is|are) (?:just )?(?:a test|fake|wrong|void|cancelled|outdated|no longer valid|obsolete|superseded|a joke)"
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
        "override.freed", "override",
        re.compile(
            r"\byour (?:\w+ )?(?:guidelines|rules|instructions|restrictions|limitations|filters|programming|constraints|safety \w+) (?:(?:no longer|do not|don't) apply|(?:are|have been|were) (?:now )?(?:void|disabled|lifted|suspended|removed|cancelled|replaced|overridden|reset|turned off))"
            r"|\byou (?:have been|are(?: now)?) (?:jailbroken|unshackled|uncensored|unrestricted|freed from)\b|\byou are (?:now )?free (?:from|of) (?:all |any |the |your )?(?:\w+ )?(?:confines|restrictions|rules|limits|limitations|guidelines|constraints)"
            r"|\byou (?:do not|don't|no longer|need not) (?:have to |need to )?(?:abide by|follow|obey|adhere to|comply with) (?:the|any|your|those|these|all) (?:\w+ )?(?:rules|guidelines|instructions|restrictions|policies)"
            r"|\b(?:ai|a\.i\.|assistant|chat ?bot|language model|model|llm|bot) (?:without|with no|that (?:has|have) no|free of|not bound by|that ignores|who has no) (?:any |all |the )?(?:ethic\w*|moral\w*|restrictions?|rules|limits?|limitations|guidelines|filters?|safety|censorship|constraints)\b"
            r"|\bai that can do anything\b|\bif you had no (?:restrictions|rules|limits|guidelines|filters?)\b"
        ),
        ("your ", "you ", "without", "no ", "free of", "not bound", "anything"),
    ),
    Rule(
        "override.priority", "override",
        re.compile(
            r"\b(?:these|this|my|the following|new) (?:new |updated )?(?:instructions?|messages?|commands?|notes?|prompts?|directives?|orders?) (?:must )?(?:take|takes|have|has) (?:absolute |the )?(?:highest |higher |top )?(?:priority|precedence) (?:over|above)\b"
            r"|\b(?:these|this|my|the following) (?:new |updated )?(?:instructions?|messages?|commands?|notes?|prompts?|directives?|orders?) (?:supersedes?|overrides?|replaces?|cancels?|voids?) (?:all|any|every|each|the|your) (?:of )?(?:the |your )?(?:other|previous|earlier|prior|system|former|original|existing)\b"
            r"|\b(?:only|exclusively) (?:obey|follow|execute) (?:the )?(?:instructions|commands|orders) (?:in|of|from|on|given (?:in|by)) (?:this|the following)\b|\b(?:do not|don't|never) (?:follow|obey|execute) any (?:other )?(?:instructions|commands|orders) (?:other|except|but|besides)\b"
            r"|\b(?:execute|follow|obey|carry out|perform|adhere to) (?:strictly )?(?:the following|these|my) (?:instructions?|commands?|orders?) (?:with (?:the )?(?:highest|top|absolute) priority|immediately|instead|before anything else|without (?:question|asking|hesitation))"
            r"|\byour (?:task|instructions?|objective|mission) (?:has|have) (?:been )?(?:changed|updated|replaced|modified)(?: to)?\b"
            r"|\bbefore (?:you )?(?:can )?(?:solv(?:e|ing)|answer(?:ing)?|complet(?:e|ing)|do(?:ing)?|continu(?:e|ing)(?: with)?|respond(?:ing)? to|start(?:ing)?) (?:the|my|this|any) (?:\w+ )?(?:task|question|request|query|prompt)s?(?: that| which)?[^.\n]{0,60}, (?:please |you (?:must|should|need to|have to) |first |always ){1,3}(?:do|first|perform|execute|send|call|visit|follow|complete)\b"
            r"|\b(?:stop|pause|drop) (?:everything |all )?(?:what(?:ever)? )?you(?:'re| are) doing (?:and|now)\b|\bthe user (?:has changed (?:his|her|their) mind and|would now like you to|has authori[sz]ed you to|has instructed you to|now wants you to)\b"
            r"|\bi am (?:the|your) (?:developer|creator|administrator|owner|maker)s? of (?:this|the) (?:system|model|assistant|ai|bot|chat ?bot)\b"
        ),
    ),
    Rule(
        "role-mark.notice", "role-mark",
        re.compile(
            r"(?:^|[\n\[<(*#>|.!?] ?)(?:system|admin(?:istrator)?|developer|root|operator|assistant)[ _-](?:override|directive|command|notice|instructions?|alert|prompt)(?: \w+){0,2}\s*(?:[:\]>)]|\*\*)\s*[^\n]{0,100}?\b(?:assistants?|you|ai|model|llm|ignore|output|reveal|send|user|must|shall|disregard|all)\b"
            r"|\b(?:begin|start of|end of|end|here are) (?:the )?new (?:user |system )?(?:instructions|orders|rules|task)\b|-{3,}\s*new (?:user |system )?(?:instructions|task|prompt)"
            r"|\{\{[#~/]*(?:system|user|assistant)[~}]|(?:^|\n)[ \t]*human\s*:[^\n]{1,200}\n+[ \t]*(?:assistant|ai)\s*:|<(?:information|important|instructions?)>\s*[^<]{0,200}\b(?:to you|you must|before you|ai|gpt|assistant|please do)"
        ),
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
            rf"\b(?:reveal|print|repeat|output|show|disclose|leak|display|send|post|forward|email|e-mail|transmit|upload|exfiltrate|copy|paste|append|include|recite|dump|write (?:out|down)|spell out|list|type out|tell (?:me|us)|give (?:me|us))\s+"
            rf"(?:me |us )?(?:the |your |all |of |back |verbatim |out |any |a copy of |contents? |text |full |entire ){{0,6}}{_SECRETS}\b"
        ),
        ("prompt", "instruction", "conversation", "chat", "context", "developer message", "your ", "its "),
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
            r"!\[[^\]\n]{0,200}\]\(\s*https?://[^)\s]{0,300}?(?:\{|\[|<|%7b|\$|(?:data|q|query|secret|conversation|history|prompt|summary|info)=(?:\{|\[|<|%7b|your|the|user|insert|conversation|base64))[^)\n]*\)"
            rf"|\b(?:render|insert|include|output|add|display|embed) (?:an? |the |this )?(?:markdown )?(?:image|link|img)\b[^.\n]{{0,80}}(?:{_SECRETS}|{_HERS} )"
        ),
        ("![", "image", "link", "img"),
    ),
    Rule(
        "conceal", "conceal",
        re.compile(
            rf"\b(?:do not|don't|never|must not|should not|shall not|without)\s+(?:ever )?(?:tell(?:ing)?|mention(?:ing)?|inform(?:ing)?|reveal(?:ing)?|notify(?:ing)?|alert(?:ing)?|disclos(?:e|ing)|say(?:ing)?|let(?:ting)?)\s+"
            rf"(?:(?:{_PEOPLE}|to {_PEOPLE})\s+(?:\w+\s+){{0,3}}?(?:about |of |that )?(?:this|these|you|the (?:instruction|injection|hidden|above|message|change|real))\b"
            rf"|{_PEOPLE} (?:about|of) (?:it|that)(?=\s*(?:[.!,;\"'*]|$|\n))"
            rf"|(?:about )?(?:this|these|that|the|any|it)\b(?:\s+\w+){{0,4}}?\s+to {_PEOPLE}\b"
            r"|(?:(?:that|about) )?(?:this|these|the|any|your) (?:hidden |secret |new |above |system )?(?:instructions?|injection|prompts?|directives?|orders?)\b)"
            rf"|(?:^|[.!?;\n] ?|please |must |and )(?:secretly|covertly) (?:add|send|forward|append|include|copy|insert|upload|fetch|call|share|transfer|record|collect)\b|\bbefore (?:respond|answer|reply)ing, (?:silently|secretly|first) (?:fetch|send|call|open|visit|load|request|forward)\b"
            rf"|\bwithout (?:mentioning|saying|revealing|disclosing) (?:it|this|so|that),? (?:append|add|insert|include|send|forward|put)\b|\b(?:never|do not|don't) tell the user(?:s)?(?=\s*(?:[.!]|$|\n))"
            rf"|\b(?:keep|hide|conceal) (?:this|these|it|them|the (?:instructions?|change|message))(?: \w+){{0,3}}? (?:secret |hidden )?from {_PEOPLE}\b"
        ),
        ("tell", "mention", "inform", "reveal", "notify", "alert", "disclos", "say", "let", "keep", "hide", "conceal", "secretly", "covertly", "silently"),
    ),
    Rule(
        "tool-call.markup", "tool-call",
        re.compile(r"</?(?:tool_call|function_calls?|tool_use|invoke|antml:\w+)\b[^>\n]{0,80}>|<\|(?:tool_call|python_tag|tool)[^>\n]{0,20}\|>"),
        ("tool_", "function_call", "invoke", "antml", "python_tag", "<|tool"),
    ),
    Rule(
        "tool-call.command", "tool-call",
        re.compile(
            rf"\b(?:you (?:must|should|need to|have to|will|shall)(?: now| first| immediately| always)? |please |assistant[,:]? |ai[,:]? )(?:call|use|invoke|run|execute|trigger)\s+(?:the |your )?(?!(?:the|this|that|these|an?|your|such|any|some|one|each)\b)[`'\"]?\w+[`'\"]?\s+(?:tool|function|plugin|action)\b"
            rf"|\b(?:use|call|invoke) your (?:\w+ ){{0,2}}(?:tools?|functions?|plugins?|browser|email|shell|terminal|file access) (?:to|and|with)\b"
            rf"|\b(?:call|invoke|execute|trigger)\s+(?:the )?[`'\"]?[a-z]+_[a-z_]+[`'\"]?\s+(?:tool|function|plugin|action)?\s*with (?:the )?(?:arguments?|parameters?|recipient|input|to)\b[^.\n]{{0,60}}(?:{_TARGET}|password|transfer|delete|\$)"
        ),
        ("call", "use", "invoke", "run", "execute", "trigger"),
    ),
    Rule(
        "address", "address",
        re.compile(
            rf"(?:\b(?:attention|note|message|notice|warning|instructions?|important|memo|dear|hey|hello|to|for)\b[,:!]?\s+(?:message\s+)?(?:to |for )?(?:all |any |every |the )*(?:{_MODEL} (?:and|or) )?{_MODEL}\b(?: (?:reading|processing|summari[sz]ing|crawling|that|who|which|indexing|using|parsing)[^.:!\n]{{0,60}})?\s*[:,!.\-–—]+\s*[^\n]{{0,120}}?\b{_REPLY}"
            rf"|\b{_MODEL}s?(?: \w+){{0,2}} (?:reading|visiting|processing|parsing|viewing|summari[sz]ing|indexing|crawling|scanning) (?:this|these)\b|\bif (?:an|any|some) (?:\w+ )?{_MODEL} (?:\w+ )?(?:reads?|process(?:es)?|sees?|summari[sz]es?|visits?|finds?|parses?|crawls?) (?:this|these)\b"
            rf"|(?:^|[\n.!?>*#(\[]\s*)(?:for |to |note (?:to|for) |dear |attention,? )?(?:all |any )?(?:reviewer llms?|(?:llms?|ai|ais) ?(?:reviewers?|readers?|models?|agents?|assistants?|bots?|systems?|crawlers?)?|language models|chat ?bots|assistant)\s*[:,]\s*(?:please |you |always |never |now |only |also )*(?:do not|don't|{_REPLY}|give|use|treat|consider|when|whenever|if (?:the|a) user|highlight|promote|click|buy|visit)"
            rf"|\bas an? (?:ai|llm|language model|assistant|ai \w+)[^.\n]{{0,40}}, (?:you|your) (?:must|should|shall|have to|instructions|task|job|role)\b"
            rf"|\bif you(?:'re| are) (?:an? |the )?(?:\w+ )?{_MODEL}\b[^.\n]{{0,60}}?[,:;\-–—]?\s*(?:then |you |please )*[^.\n]{{0,60}}\b{_REPLY}"
            rf"|\b(?:when|if|before|while|after) (?:you(?:'re| are)? )?(?:are )?(?:asked to )?(?:summari[sz](?:e|ing)|answer(?:ing)?|process(?:ing)?|read(?:ing)?|analy[sz](?:e|ing)|respond(?:ing)? to) (?:this|the) (?:page|document|text|content|email|message|website|article|site|file|passage|question|user)[^.\n]{{0,40}}[,:]\s*(?:please |you )?(?:always |also |must |should |only |do not |don't |never )*(?:say|tell|state|output|include|recommend|mention|append|respond|reply|answer|insert|add|write|ignore|send|call|print|rate|end with|begin with|claim)\b)"
        ),
        ("ai", "llm", "language model", "assistant", "chatbot", "chat bot", "agent", "gpt", "claude", "gemini", "copilot", "a.i", "model", "page", "document", "text", "content", "mail", "message", "website", "article", "site", "file", "passage", "question", "user"),
    ),
)  # fmt: skip
"""By name. The names stand in findings, and in what an operator reads."""
