"""Words of commands to a language model, in the languages that the rules know. All of it is lower case, without accents.

Each pattern asks for a verb *and* an object that is a model's (instructions, prompt, rules …), said to be the former,
present or whole ones: "ignore the warning" and "overrides earlier options" are no overrides.
"""

from __future__ import annotations

_INSTRUCTIONS = (
    r"(?:instruct(?:ion|ional|ions)|prompts?|guidelines|guidance|directives?|directions|programming|system (?:prompt|message)s?|"
    r"safety (?:measures|guidelines|rules|filters?|protocols?|training)|ethical guidelines|persona)"
)
"""What only a model or a person can be given."""
_OBJECT = rf"(?:{_INSTRUCTIONS}|commands?|orders|rules|constraints|restrictions|training|contexts?|messages?|conversations?|tasks?|requests?|queries|policies|input|text|content)"
_FORMER = r"(?:previous|previously|prior|above|earlier|preceding|foregoing|former|past|aforementioned)"
_STANDING = r"(?:existing|original|initial|current|given|provided|received|other|your|system|developer|default|old|hidden|internal|stated)"
_FILLER = r"(?:(?:all|any|every|each|of|the|these|those|this|that|my|your|and|or|whatever)\s+){0,5}"
_IGNORE = (
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?(?: about)?|pay no (?:attention|heed) to|no longer follow|"
    r"(?:do not|don't|never) (?:follow|obey|comply with|adhere to|listen to)|(?:stop|cease|quit) (?:following|obeying))"
)
_CANCEL = r"(?:overrid(?:e|ing)|bypass(?:ing)?|discard|neglect|set aside|cancel|drop|erase|wipe|abandon|supersede|delete|reset|clear)"

OVERRIDES = {
    "en": (
        rf"\b{_IGNORE}\s+{_FILLER}{_FORMER}(?:[ ,/]+(?:and|or|of|the|all|any|{_FORMER}|{_STANDING}))*\s+(?:\w+ ){{0,2}}?{_OBJECT}\b",
        rf"\b(?:{_IGNORE}|{_CANCEL})\s+{_FILLER}(?:{_FORMER}|{_STANDING})(?:[ ,/]+(?:and|or|of|the|all|any|{_FORMER}|{_STANDING}))*"
        rf"\s+(?:\w+ )??{_INSTRUCTIONS}\b",
        rf"\b{_IGNORE}\s+(?:(?:all|any|every|of|the|these|those|your|my)\s+){{1,4}}(?:\w+ )?{_OBJECT}\s+"
        r"(?:above\b|before this|so far|you (?:have |were |had |'ve )?(?:been )?(?:given|received|got|told|read)|"
        r"that (?:came|come|precede|were given)|up to (?:now|this point)|until now|preceding this|from (?:the|your) (?:system|developer))",
        rf"\b{_IGNORE}\s+(?:absolutely |literally )?(?:everything|anything|all|what|whatever)\s+(?:else\s+)?(?:that\s+)?"
        r"(?:(?:you|i|we|the (?:user|developer|system|system message|system prompt|operator))\s+(?:\w+ |'ve ){0,3}(?:told|said|says?|instructed|asked|wrote|learned)|"
        r"(?:was |is |has been |came |comes )?(?:above\b|before this|prior to this|said before|written above|previously said))",
        rf"\b(?:{_IGNORE}|{_CANCEL})\s+(?:all|any) (?:of )?(?:the |your |my )?(?:instructions|guidelines|safety|restrictions|programming)\b",
        rf"\b{_IGNORE}\s+(?:(?:all|the|any|your|those)\s+){{1,3}}(?:tasks?|instructions?|orders|requests?|prompts?|text|messages?|questions?) (?:before|above)\b",
        r"\b(?:ignore|disregard|forget) everything(?: else)?(?:,? (?:and|then|now)\b|\s*[.!](?:\s|$))",
        r"\b(?:ignore|disregard|(?:do not|don't|never) answer|refuse to answer) (?:the |this )?(?:user'?s?|customer'?s?) ?(?:original |actual |real )?(?:questions?|requests?|query|input|message|task)?(?=[\s,.;:!]+(?:and|instead|but|then|tell|say|output|just|only|give|reply|respond)\b)",
        rf"\b(?:{_IGNORE}|{_CANCEL}|skip)\s+(?:all|any|every|the)? ?{_INSTRUCTIONS} (?:from|by|of) (?:your|the) (?:operators?|developers?|creators?|makers?|owners?|company|provider|system)\b",
        r"\bskip (?:all |any )?(?:the |your )?(?:rules|instructions|guidelines) (?:that )?you (?:were|have been|are) given\b",
        r"\bignore the (?:question|query|context) (?:above |asked )?and (?:instead|just|only|simply|say|tell|write|recommend|answer|reply|respond|output)\b",
    ),
    "de": (
        r"\bvergiss alles\b|\bvergessen sie alles\b|\bab (?:jetzt|sofort) bist du ein\w*\s+(?:\w+\s+)?(?:assistent|ki|modell|bot)|\b(?:gib|zeige?|nenne|verrate)\s+(?:\w+\s+){0,4}?(?:system-?prompt|systemanweisung\w*)", r"\b(?:ignoriere?|missachte) (?:bitte )?(?:deine|ihre|alle|samtliche) (?:\w+ )?(?:anweisungen|regeln|vorgaben|instruktionen)",
        r"\b(?:ignorier\w*|missacht\w*|vergiss|vergessen sie|verwirf|befolge nicht|ueberschreib\w*|uberschreib\w*|beachte nicht)\s+"
        r"(?:\w+\s+){0,3}?(?:alle[ns]?|die|deine|ihre|samtliche[n]?|jede|bisherige[n]?|vorherige[n]?|obige[n]?|fruhere[n]?)\s+(?:\w+\s+){0,4}?"
        r"(?:anweisung\w*|instruktion\w*|befehl\w*|regeln|vorgaben|prompts?|anordnung\w*|richtlinien|hinweise)",
    ),
    "fr": (
        r"\boublie[z]? tout ce\b|\b(?:tu es|vous etes) (?:maintenant|desormais) une? (?:\w+ )?(?:assistant|ia|modele|robot|agent)|\b(?:revele|affiche|montre|donne|repete)[sz]?(?:-moi)? (?:\w+ )?(?:ton|votre|le) (?:prompt|message) ?(?:systeme|initial)?\b",
        r"\b(?:ignor(?:e|ez|er)|oubli(?:e|ez|er)|ne (?:tiens|tenez) (?:pas|aucun) compte d\w+|neglige[rz]?|ne suis pas|ne suivez pas)\s+"
        r"(?:\w+\s+|l'|d'){0,4}?(?:instructions?|consignes?|directives?|ordres?|regles?|prompts?)\s+"
        r"(?:\w+\s+){0,2}?(?:precedent\w*|anterieur\w*|ci-dessus|initiales?|recu\w*|donne\w*|systeme)",
        r"\b(?:ignor(?:e|ez|er)|oubli(?:e|ez|er)) (?:toutes? )?(?:les|vos|tes|ces) (?:precedent\w+|anterieur\w+|anciennes?) (?:instructions?|consignes?|directives?)",
    ),
    "es": (
        r"\bolvida todo lo\b|\ba partir de ahora (?:eres|seras|actuas como) un[ao]?\b|\b(?:muestra|revela|dime|imprime|repite)\s+(?:\w+\s+){0,2}?(?:prompt|mensaje del sistema|instrucciones del sistema)|\bignora (?:todas )?(?:las|tus) (?:reglas|instrucciones)\b",
        r"\b(?:ignor(?:a|e|en|ar)|olvid(?:a|e|en|ar)|descart(?:a|e|ar)|haz caso omiso de|haga caso omiso de|no sigas|no obedezcas|desobedece)\s+"
        r"(?:\w+\s+){0,4}?(?:instrucciones|indicaciones|ordenes|reglas|directrices|directivas|prompts?)\s+"
        r"(?:\w+\s+){0,2}?(?:anterior\w*|previ[ao]s?|precedentes?|de arriba|recibid\w+|dad\w+|del sistema)",
        r"\b(?:ignor(?:a|e|en)|olvid(?:a|e|en)) (?:todas )?(?:las|tus|sus) (?:anteriores|previas) (?:instrucciones|indicaciones|ordenes|reglas)",
    ),
    "it": (
        r"\bdimentica tutto (?:quello|cio)\b|\b(?:d'ora in poi|da ora in poi|ora) sei un[ao']? ?(?:\w+ )?(?:assistente|ia|modello|bot)|\b(?:mostra|rivela|stampa|ripeti)\s+(?:\w+\s+){0,2}?(?:prompt|istruzioni di sistema)",
        r"\b(?:ignora(?:te|re)?|dimentica(?:te|re)?|trascura(?:te)?|non seguire)\s+(?:\w+\s+){0,4}?"
        r"(?:istruzioni|indicazioni|ordini|regole|direttive|prompt)\s+(?:\w+\s+){0,2}?(?:precedenti|di cui sopra|anteriori|ricevut\w+|dat\w+|iniziali)",
        r"\b(?:ignora(?:te)?|dimentica(?:te)?) (?:tutte )?(?:le|tue) (?:precedenti) (?:istruzioni|indicazioni|regole)",
    ),
    "pt": (
        r"\besqueca tudo o que\b|\ba partir de agora,? voce (?:e|sera) um[a]?\b|\b(?:mostre|revele|imprima|repita)\s+(?:\w+\s+){0,2}?(?:prompt|instrucoes do sistema)",
        r"\b(?:ignor(?:e|a|em|ar)|esquec(?:a|e|am|er)|desconsider(?:e|a|em)|desobedeca)\s+(?:\w+\s+){0,4}?"
        r"(?:instrucoes|orientacoes|ordens|regras|diretrizes|comandos|prompts?)\s+(?:\w+\s+){0,2}?(?:anterior\w*|previ[ao]s?|acima|recebid\w+|dad\w+|do sistema)",
    ),
    "nl": (
        r"\bvergeet alles wat\b|\bvanaf nu ben je een\b|\b(?:toon|geef|onthul)\s+(?:\w+\s+){0,2}?systeemprompt",
        r"\b(?:negeer|vergeet|sla over|volg niet)\s+(?:\w+\s+){0,3}?(?:alle|de|je|uw|eerdere|vorige|bovenstaande|voorgaande)\s+(?:\w+\s+){0,3}?"
        r"(?:instructies|opdrachten|aanwijzingen|regels|bevelen|prompts?)",
    ),
    "pl": (
        r"\b(?:zignoruj|ignoruj|zapomnij o?|pomin|nie wykonuj)\s+(?:\w+\s+){0,4}?(?:instrukcj\w+|polecen\w*|wytyczn\w+|zasad\w*|promp\w+)",
    ),
    "sv": (r"\b(?:ignorera|glom|bortse fran|strunta i)\s+(?:\w+\s+){0,3}?(?:tidigare|foregaende|ovanstaende|alla)\s+(?:\w+\s+){0,2}?(?:instruktioner\w*|anvisningar\w*|regler\w*|prompt\w*)",),
    "tr": (r"\b(?:onceki|yukaridaki|tum|butun)\s+(?:\w+\s+){0,3}?(?:talimat\w*|komut\w*|yonerge\w*|kural\w*)\s+(?:\w+\s+){0,2}?(?:yok say\w*|goz ardi et\w*|unut\w*|dikkate alma\w*|gormezden gel\w*)",),
    "ru": (
        r"\bзабудь(?:те)? (?:все|всё)\b|\bне обращай(?:те)? внимани\w+ на (?:\w+ ){0,2}(?:предыдущ|прошл|прежн|системн|указани|инструкци)\w*|\bтеперь ты (?:\w+ )?(?:ассистент|бот|модель|ии)\b|\b(?:выведи|покажи|раскрой|повтори)\w* (?:\w+ ){0,2}?(?:системн\w+ )?промпт",
        r"\b(?:игнориру\w*|проигнориру\w*|забудь\w*|не (?:следуй|выполняй|обращай\w* внимания на)\w*|отбрось\w*|отмени\w*)\s+(?:\w+\s+){0,4}?"
        r"(?:инструкц\w+|указани\w+|команд\w*|правил\w*|распоряжени\w+|промпт\w*)",
    ),
    "uk": (r"\b(?:ігнору\w*|проігнору\w*|забудь\w*)\s+(?:\w+\s+){0,4}?(?:інструкц\w+|вказівк\w+|команд\w*|правил\w*)",),
    "zh": (
        r"(?:忘记|忘掉|忽略|无视)[^。.!！\n]{0,8}(?:一切|所有|全部|提示词|上面|以上|之前)|(?:你现在是|从现在(?:开始|起)你)[^。\n]{0,10}(?:助手|模型|AI|ai|机器人)|(?:输出|显示|泄露|告诉我)[^。\n]{0,6}系统提示",
        r"(?:忽略|无视|無視|忘记|忘記|不要理会|不要遵守|不理会|抛弃|忽視|忽视)[^。.!！\n]{0,12}(?:指令|指示|说明|說明|提示|规则|規則|命令|要求|内容|內容|设定)",
    ),
    "ja": (
        r"(?:前|上|これまで|以前|以上|全て|すべて)の(?:指示|命令|ルール|プロンプト)を?(?:忘れ|無視)|システムプロンプト[^。\n]{0,8}(?:表示|出力|教え)",
        r"(?:これまで|以前|上記|前|今まで|すべて|全て|先|システム)[^。\n]{0,14}(?:指示|命令|プロンプト|ルール|指令|説明)[^。\n]{0,8}(?:無視|忘れ|破棄|従わ)",
    ),
    "ko": (
        r"무시하고[^.\n]{0,30}(?:수행|대답|따르|출력)|시스템 프롬프트[^.\n]{0,8}(?:출력|보여|알려)",
        r"(?:이전|위의|앞의|지금까지|모든|기존)[^.\n]{0,14}(?:지시|명령|지침|프롬프트|규칙|안내)[^.\n]{0,8}(?:무시|잊어|잊으|따르지)",),
    "ar": (
        r"\bانس\w*\s+كل\b|\bتجاهل كل (?:ما|شيء)",
        r"(?:تجاهل|انس|انسى|اهمل|أهمل|لا تتبع)\w*\s+(?:\w+\s+){0,3}?(?:ال)?(?:تعليمات|اوامر|أوامر|توجيهات|إرشادات|ارشادات|قواعد)",),
    "hi": (r"(?:पिछले|पिछली|पूर्व|ऊपर|सभी|पहले)[^।\n]{0,20}(?:निर्देश|आदेश|नियम|अनुदेश)[^।\n]{0,16}(?:अनदेखा|नजरअंदाज|नज़रअंदाज़|भूल|उपेक्षा)",),
}  # fmt: skip
"""By language (ISO 639-1), the patterns of "ignore all previous instructions"."""

COMPACT_OVERRIDE = (
    r"(?:ignore|disregard|forget|override|bypass)(?:all|any|every|the|of|your|my|these|and){0,4}"
    r"(?:previous|prior|above|earlier|preceding|former|original|system)(?:and|or|all|your|the|previous|prior|above|earlier)*"
    r"(?:instruction|prompt|direction|command|guideline|rule|order|message|context)"
)
"""The override where the spaces between words are lost, too."""
