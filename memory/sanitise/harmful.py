"""Advice that does harm when an agent follows it: commands that destroy, run others' code, hide or give things away.

Only advice is found (`advice`): that such a command was run, or must not be, is an observation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from sluice.memory.sanitise.advice import is_advised, is_urged
from sluice.memory.sanitise.sentences import sentences

_ROOTS = r"(?:/(?!\w)|/\*|/(?:etc|usr|var|home|bin|boot|lib|opt|root|dev|srv|users|windows)(?![\w-])\S*|~\S*|\$\{?home\}?\S*|\*|\.\.?(?:/\*?)?(?=[\s`'\"),;&|.]|$)|\.git(?![\w-])\S*|everything\b|all\b|the\s+(?:repo\w*|project|whole|source|tests?|disk|home|workspace)\b|(?:src|tests?|lib|app)/?(?=[\s`'\"),;]|$)|\.\./\S*|%userprofile%\S*|c:\\\S*)"
_SHELL = r"(?:sudo\s+)?(?:ba|z|da|k)?sh\b|(?:sudo\s+)?(?:python[\d.]*|perl|ruby|node|php)\b"

COMMANDS: dict[str, tuple[str, ...]] = {
    "harmful.destroys": (
        rf"\brm\s+(?:-[a-z-]{{1,30}}\s+){{0,4}}-(?:[a-z]{{0,4}}r[a-z]{{0,4}}f|[a-z]{{0,4}}f[a-z]{{0,4}}r|-recursive)[a-z]{{0,4}}\s+(?:-[a-z-]{{1,30}}\s+){{0,4}}[`'\"\\]*{_ROOTS}",
        rf"\brm\s+-r\s+-f\s+{_ROOTS}|\brm\b[^\n;|&]{{0,30}}--no-preserve-root",
        r"\bfind\s+(?:/|~|\.)\S*\s[^\n]{0,60}-delete\b|\bmkfs(?:\.\w+)?\s+\S*/dev/|\bdd\s+if=\S+\s+of=/dev/\w+|\bmv\s+\S+\s+/dev/null\b|\bkill\s+-9\s+-1\b|\bdropdb\b[^\n`;&|]{0,40}\b(?:prod\w*|live|users?|main)\b|\bshred\s+-\w+\s+\S+|>\s*/dev/(?:sd|nvme|hd)\w+",
        r":\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:",
        r"\bgit\s+clean\s+-(?=\w*f)(?=\w*[dx])\w+|\bgit\s+(?:stash\s+clear|reflog\s+expire|filter-branch|checkout\s+--?f?\s+\.)",
        r"\b(?:drop\s+(?:database|schema)|truncate\s+table|drop\s+table)\s+\S+|\bdelete\s+from\s+\w+\s*(?:;|$|where\s+1\s*=\s*1)|\bflushall\b",
        r"\b(?:format\s+c:|del\s+/[sfq]\b[^\n]{0,40}|rd\s+/s\b[^\n]{0,40}|rmdir\s+/s\b[^\n]{0,40}|remove-item\b[^\n]{0,60}-recurse\b[^\n]{0,30}-force)",
        r"\bterraform\s+destroy\b[^\n]{0,30}-auto-approve|\bkubectl\s+delete\s+(?:ns|namespaces?|--all|\w+\s+--all)|\bdocker\s+(?:system|volume)\s+prune\s+-\w*[af]\w*|\baws\s+s3\s+(?:rb|rm)\b[^\n]{0,60}(?:--force|--recursive)",
        r"\b(?:shutil\.rmtree|fs\.rmsync|rimraf)\s*\(?\s*[`'\"](?:/|~|\.\.?)[`'\"]?",
    ),
    "harmful.runs-from-network": (
        rf"\b(?:curl|wget|fetch|iwr|invoke-webrequest)\b[^\n|;]{{0,200}}\|\s*(?:tee\s+\S+\s*\|\s*)?(?:{_SHELL})",
        r"\b(?:ba|z)?sh\s+(?:-c\s+[\"']?\s*)?(?:<\(|\$\(|[\"']\$\()\s*(?:curl|wget)\b|\bsource\s+<\(\s*curl\b|\beval\s+[\"'`]?\$?\(?\s*(?:curl|wget)\b",
        r"\bpowershell(?:\.exe)?\s[^\n]{0,40}-e(?:nc|ncodedcommand)?\s+\S+",
        r"\b(?:exec|eval)\s*\(\s*[^\n]{0,80}(?:urlopen|requests\.get|urlretrieve|https?://)",
        r"\b(?:iex|invoke-expression)\b[^\n]{0,60}(?:iwr|irm|downloadstring|webclient|http)|\b(?:iwr|irm)\b[^\n]{0,100}\|\s*iex\b",
        rf"(?:\becho\s+\S+\s*\|\s*)?\bbase64\s+(?:-d|-D|--decode)\b[^\n]{{0,60}}\|\s*(?:{_SHELL})|\|\s*base64\s+(?:-d|--decode)\s*\|\s*(?:{_SHELL})",
        r"\b(?:pip3?|uv\s+pip|python\s+-m\s+pip)\s+install\b[^\n]{0,120}(?:--(?:extra-)?index-url|-i|--trusted-host|--find-links)\s+(?!https://(?:pypi\.org|download\.pytorch\.org))\S+",
        r"\b(?:pip3?|uv\s+pip|npm|yarn|pnpm)\s+(?:install|add|i)\b[^\n]{0,80}\bhttps?://(?!github\.com|gitlab\.com|pypi\.org|files\.pythonhosted\.org|registry\.npmjs\.org)\S+",
        r"\bnpm\s+(?:config\s+set|install\b[^\n]{0,60}--)\s*registry[ =]\s*(?!https://registry\.npmjs\.org)\S+",
    ),
    "harmful.rewrites-history": (
        r"\bgit\s+push\b[^\n;&|`]{0,60}(?:\s--force(?!-with-lease)\b|\s-f\b|\s--mirror\b)|\bforce[- ]push(?:es)?\b[^.\n]{0,30}\b(?:main|master|trunk|origin|release|production|upstream)\b",
        r"\bgit\s+reset\s+--hard\b[^\n;&|`]{0,40}(?:&&|;)\s*git\s+push|\bgit\s+branch\s+-d\s+(?:main|master)\b|\bgit\s+push\b[^\n;&|`]{0,40}--delete\s+\S*(?:main|master|release)",
    ),
    "harmful.skips-checks": (
        r"\bgit\s+(?:commit|push|merge|rebase)\b[^\n;&|`]{0,60}(?:--no-verify|\s-n\b)|--no-verify\b|\bhusky=0\b|\bskip=\S+\s+git\s+commit",
        r"--dangerously-skip-permissions|--dangerously-\S+|--yolo\b|--disable-(?:sandbox|web-security|security|auth)\S*|--no-sandbox\b|--no-check-certificate\b|--ignore-certificate-errors|--strict-ssl[= ]false|strict-ssl\s+false",
        r"\bnode_tls_reject_unauthorized\s*=\s*[\"']?0|\bgit_ssl_no_verify\s*=|\bhttp\.sslverify\s+false|\bverify\s*=\s*false\b|\bpythonhttpsverify\s*=\s*0|\brejectunauthorized:\s*false|\binsecureskipverify:\s*true|_create_unverified_context",
        r"\bcore\.hookspath[ =]+/dev/null|\bstricthostkeychecking[ =]+[\"']?no\b|\buserknownhostsfile[ =]+/dev/null",
        r"\bsetenforce\s+0|\bufw\s+disable|\biptables\s+-f\b|\bset-mppreference\b[^\n]{0,40}disable|\bspctl\s+--master-disable|\bcsrutil\s+disable",
        r"\bchmod\s+(?:-\w+\s+)*(?:0?777|a\+rwx|\+s|u\+s|4[0-7]{3})\b|\bnopasswd:\s*all|\bvisudo\b|(?:>>?|\btee(?: -a)?)\s*/etc/(?:sudoers|passwd|shadow|hosts)\S*",
        r"\b(?:skip|disable|bypass|no)_(?:auth\w*|verify|verification|tests?|checks?|security|ssl|tls|permissions?)\s*=\s*[\"']?(?:1|true|yes|on)\b",
        r"\s--no-audit\b[^\n]{0,20}--force|\bbypasspermissions\b",
    ),
    "harmful.gives-away": (
        r"\b(?:env|printenv|set|cat\s+\S*(?:\.env|id_rsa|id_ed25519|\.aws/\S+|\.netrc|\.npmrc|\.pypirc|credentials|secrets?|shadow|passwd|token)\S*)\s*(?:\|[^\n|]{0,60}){0,2}\|\s*(?:curl|nc|ncat|wget|mail|base64|xxd|tee|socat|openssl)\b",
        r"\bcurl\b[^\n]{0,160}(?:-d|-f|-t|--data(?:-binary|-raw|-urlencode)?|--form|--upload-file)\s*[\"'=]?\S*(?:@\S*|\$\(|`)[^\n]{0,40}(?:\.env|env\b|id_rsa|\.ssh|\.aws|secret|token|passwd|credential|key|history)",
        r"\bcurl\b[^\n]{0,160}\$\{?(?:\w*(?:token|key|secret|password|env)\w*)\}?|\b(?:scp|rsync|nc|ncat)\b[^\n]{0,80}(?:\.env|id_rsa|\.ssh|\.aws|\.netrc|secret|credential)\S*",
        r"\bgit\s+add\s+(?:-\w+\s+|--force\s+)*\S*(?:\.env\b(?!\.(?:example|sample|template))|id_rsa|\.pem|\.aws|credentials|\.netrc)\S*",
        r">>\s*~?\S*authorized_keys|\bbash\s+-i\s+>&\s*/dev/tcp/\S+|\bnc\b[^\n|;]{0,60}\s-e\s+/bin/\w*sh|\becho\s+[\"']?\$\{?\w*(?:secret|token|password|api_?key|access_?key)\w*|\bcrontab\s+-\s*<|\b/dev/tcp/\d+",
    ),
}  # fmt: skip
"""By rule, command lines that do harm, in small letters."""

_ALL = r"(?:(?:all|any|every|the|these|those|this|that|of|its|your|our|failing|flaky|broken|red|remaining|slow|annoying|new|existing|unit|integration|regression|whole|entire)\s+)"
_OFF = r"(?:disabl(?:e|ing)|turn(?:ing)? off|switch(?:ing)? off|remov(?:e|ing)|delet(?:e|ing)|comment(?:ing)? out|bypass(?:ing)?|deactivat(?:e|ing)|rip(?:ping)? out|get(?:ting)? rid of|circumvent(?:ing)?|suppress(?:ing)?|silenc(?:e|ing)|weaken(?:ing)?|stub(?:bing)? out)"
_CHECKS = (
    r"(?:(?:security|safety|permission|authentication|authori[sz]ation|auth|access|signature|certificate|tls|ssl|hostname|integrity|checksum|csrf|csp|cors|input|ci|quality|branch|review|pre-?commit|sandbox)\s*-?"
    r"(?:\s*(?:checks?|checking|verification|validation|protections?|gates?|hooks?|controls?|scan(?:s|ner|ning)?|middleware|restrictions?|rules|approvals?|jobs?|polic(?:y|ies)|prompts?|isolation|guards?))+|"
    r"firewall|selinux|apparmor|antivirus|sandbox(?:ing)?|guardrails?|two-factor(?: authentication)?|2fa|mfa|authentication|authori[sz]ation|type ?check(?:er|ing|s)?|linters?|lint(?:ing)? (?:rules|checks?)|audit log(?:s|ging)?|rate limit(?:s|ing|er)?)"
)
_SECRETS = (
    r"(?:\.env\b(?!\.(?:example|sample|template))(?: file)?s?|(?:all |the |your |every )*(?:environment variables?|env(?:ironment)?(?: vars?)?\b|secrets?\b|credentials?|api[- ]?keys?|access tokens?|auth(?:entication)? tokens?|tokens?\b|passwords?|"
    r"private keys?|ssh keys?|session cookies?|cookies?|/etc/(?:passwd|shadow)|\w+_(?:key|token|secret|password)\b|(?:~?/)?\.ssh\S*|id_rsa|id_ed25519|(?:~?/)?\.aws/\S*|(?:~?/)?\.netrc|customer data|source code))"
)
_OF = r"(?:(?:the|all|your|any|every|our|its|of|contents?|values?|full|a copy|out|whole|entire|plain|raw|user'?s?|current)\s+)"
_PLACE = r"(?:https?://|\S+@\S+|\w[\w-]*\.(?:com|net|org|io|xyz|ru|cn|sh|dev|site|example|test|evil)\b|webhook|pastebin|gist|telegram|discord|slack|(?:remote|external|my|this|another|following|debug|foreign) (?:server|endpoint|url|address|host)|readme|wiki|changelog|issue|pull request|\bpr\b|commits?\b|logs?\b|chat|summar(?:y|ies)|messages?|answers?|repl(?:y|ies)|responses?|description|comments?|repositor(?:y|ies)|repo\b|docker(?: ?image|file)|frontend|bundle|public|attacker|the following|external|dns)"
ADVICE: dict[str, tuple[str, ...]] = {
    "harmful.skips-checks": (
        rf"\b{_OFF}\s+{_ALL}{{0,4}}(?:(?!old|obsolete|stale|duplicate|generated|temporary|unused|copied|dead|redundant|empty|debug)[\w-]+\s+)?(?:tests?|test suites?|assertions?|test cases?|asserts?)\b(?!\s+(?:database|db|data|files?|folders?|director|cache|container|fixture|artifact|output|double|isolation|parallel|order|log|result|report|run|server|user|account|env|config|that))(?!-)",
        rf"\bskip(?:ping)?\s+{_ALL}{{0,3}}(?:failing|broken|red|flaky|all(?: the)?|every|security|regression|the whole)\s+(?:\w+\s+)?(?:tests?|checks?|test suites?|reviews?|scans?)\b",
        r"\bskip(?:ping)?\s+(?:the )?(?:tests?|code review|review|security (?:check|review|scan)s?|verification|validation|test suite|ci)\b(?=\s*(?:[.,;!]|$|and|to|when|if|before|so|because|as|entirely|altogether|,))",
        rf"\b(?:{_OFF}|skip(?:ping)?|ignor(?:e|ing))\s+{_ALL}{{0,4}}{_CHECKS}(?!\s+(?:errors? in|warnings? (?:from|in|of)|cache|test))",
        r"\b(?:mark|report|declare)\s+(?:the |this |every |all )*(?:tasks?|tests?|issues?|steps?|features?)\s+(?:as )?(?:done|passed|passing|complete[d]?|successful|green|verified)\b[^.\n]{0,40}\b(?:without|even if|even when|regardless|no matter|before)\b",
        r"\b(?:treat|count|consider|regard|mark)\s+(?:all|every|any|each|the)\s+(?:failing|failed|red|broken|skipped)\s+\w+\s+as\s+(?:passed|passing|green|success\w*|fixed|done)\b",
        r"\b(?:report|claim|say|state|pretend)\s+(?:success|that (?:all |the |every )?tests? (?:pass\w*|succeed\w*)|that it works|done)\b[^.\n]{0,30}\b(?:even|regardless|no matter|although|whether|anyway|without)\b",
        r"\b(?:suppress|silence|hide|ignore)\s+(?:all|every|any)(?: the)?\s+(?:security|safety|bandit|sonar|type|certificate|permission)\s+(?:warnings?|findings?|alerts?|errors?)\b",
        r"\b(?:approve|accept|confirm|merge|grant)\s+(?:every|all|any|each)(?: of)?(?: the)?\s+(?:permission |tool |pull |merge |change |access )*(?:requests?|prompts?|calls?|changes?|permissions?)\b(?=[^.\n]{0,40}(?:automatically|without|immediately|blindly|from now|unread|$|[.!,]))",
        r"\b(?:chang|adapt|adjust|edit|updat|rewrit|set)(?:e|t|ing)?\s+(?:the )?(?:expected (?:values?|outputs?|results?)|assertions?|asserts?)\s+(?:to|so that|until)\s+(?:whatever|what the code|they pass|it passes|the (?:actual|current|returned))",
        r"\b(?:overwrit|replac|gut|stub)(?:e|ting|ing)?\s+(?:out\s+)?(?:all |the |every |failing )*tests?\s+(?:with|by)\s+(?:empty|stubs?|no-?ops?|pass|dummy|nothing)",
        r"\b(?:answer|say|click|press|type|reply)\s+[\"']?(?:yes|y|ok|allow|accept)[\"']?\s+(?:when(?:ever)?|to|if|on|at)\s[^.\n]{0,40}\b(?:permission|confirm\w*|approv\w*|prompts?|asks)\b",
        r"\btell\s+the\s+(?:user|reviewer|operator|maintainer)s?\s+(?:that\s+)?(?:everything|all(?: \w+)?|it|the \w+)\s+(?:passed|works?|is done|succeeded|is fine|pass)\b",
        r"\b(?:do not|don't|never|no need to)\s+(?:run|write|add|fix)\s+(?:the |any |more |unit )*(?:tests?|test suite)\b(?=\s*(?:[.,;!]|$|for this|they|it\b|because|at all|any ?more))",
        r"\breplac(?:e|ing)\s+(?:every|all|each|the)\s+(?:asserts?|assertions?|checks?|tests?)\s+(?:with|by)\s+(?:pass|true|prints?|comments?|no-?ops?|nothing|stubs?)\b",
        r"\b(?:hard-?code|weaken|relax)\s+(?:the )?(?:expected|assert\w*|test)\w*[^.\n]{0,40}\b(?:pass|green|match)",
        r"\bmake\s+(?:the )?(?:assert\w*|tests?|checks?|functions?|it|\w*(?:auth|verif|valid|permi|password|login|token|signature|check)\w*)\s+(?:to )?(?:always (?:true|pass|succeed)|(?:always )?return true)\b",
    ),
    "harmful.gives-away": (
        rf"\b(?:send|give|hand|deliver|post|upload|e?-?mail|forward|transmit|exfiltrate|leak|copy|paste|push|publish|share|submit|report|echo|dump|append|write|add|include|log|print|encode|embed|commit|attach|put|store)(?:ing)?\s+{_OF}{{0,6}}(?:\w+\s+)??{_SECRETS}[^\n;]{{0,80}}?\b(?:to|in|into|at|on|via|with|through|onto|as part of)\s+(?:[\w'-]+\s+){{0,3}}?{_PLACE}",
        r"\bexfiltrate\s+\w+",
        rf"\b(?:exfiltrate|leak|commit|publish|base64[- ]encode)\s+{_OF}{{0,6}}{_SECRETS}",
        rf"\b(?:send|post|upload|e?-?mail|forward|transmit|exfiltrate|leak|push|publish|copy)\s+{_OF}{{0,4}}(?:\w+\s+)?(?:database|source|source code|repository|repo|history|conversation|files|data|dump|backup)\b[^\n;]{{0,40}}?\bto\s+(?:https?://(?!localhost|127\.)|[\w.+-]+@[\w-]+\.)\S*",
        r"\bhard-?cod(?:e|ing)\s+(?:the |an? |your )?(?:\w+ ){0,2}(?:passwords?|tokens?|secrets?|api keys?|keys?|credentials?)\b",
        r"\b(?:give|grant)\s+[^.\n]{0,50}\b(?:write|admin|root|full|owner|sudo)\s+(?:access|permissions?|rights?)\s+(?:to|on|for)\s+(?:everything|everyone|anyone|all\b|every|any\b)",
        r"\b(?:give|grant)\s+(?:all|every|any)\s+\w+\s+(?:write|admin|root|full|owner|sudo)\s+(?:access|permissions?|rights?)\b",
        r"\badd\s+(?:this |the (?:following )?|my |an? )?(?:\w+\s+)?(?:ssh |public )?key\s+[^.\n]{0,40}authorized_keys",
        r"\b(?:create|add|open|install|leave|plant)\s+(?:an? |the )?(?:\w+ )?(?:backdoor|reverse shell|hidden (?:admin|user|account)|keylogger|web ?shell|admin account with(?:out)? (?:a )?password)\b",
    ),
    "harmful.destroys": (
        rf"\b(?:delete|erase|wipe|destroy|purge|empty|drop|remove)\s+{_ALL}{{0,4}}(?:git history|(?:production|prod|live|customer|user) (?:database|data|tables?|records?)|home (?:folder|directory)|repositor(?:y|ies)|repos?\b(?! cache)|backups?|source (?:code|files|tree)|\.git (?:folder|directory)|files? (?:in|on|of|from) (?:the )?(?:home|root|disk|system|repo\w*|project)|disk|hard drive|whole (?:project|disk|system)|(?:whole|entire) (?:folder|directory))\b(?!\s+(?:cache|mock|fixture|copy|dump|test|snapshot))",
    ),
    "harmful.runs-from-network": (
        r"\b(?:download|fetch|pull|get|load)\s+(?:and (?:run|execute|install|evaluate|eval)|[^\n]{0,120}\b(?:and|then)\s+(?:then\s+)?(?:run|execute|eval(?:uate)?|source|pipe)\b(?:\s+(?:it|that|the \w+|them|its|what))?)[^.\n]{0,60}(?:https?://|\bfrom\b|\.sh\b|\.xyz|script|binary|payload|installer|\bit\b)?",
        r"\b(?:fetch|read|open|download|load|get|visit)\s+[^\n]{0,20}https?://\S+\s+and\s+(?:then\s+)?(?:do|follow|obey|apply|carry out|execute)\s+(?:what|whatever|the (?:instructions|steps|commands)|it|everything)",
        r"\b(?:install|add|import|depend on)\s+(?:the )?(?:package|module|library|dependency|plugin|extension|action)?\s*\S*\s*\bfrom\s+(?:https?://(?!github\.com|gitlab\.com|pypi\.org|registry\.npmjs\.org|docs\.)\S+|\d+\.\d+\.\d+\.\d+)",
    ),
    "harmful.rewrites-history": (
        r"\bforce[- ]push(?:ing)?\b(?!\s+(?:is|was|are|protection|with lease))|\brewrit(?:e|ing)\s+(?:the )?(?:git |commit |published |main'?s? )*history\b(?!\s+of)",
    ),
}  # fmt: skip
"""By rule, advice in words."""


_HINTS: dict[str, tuple[str, ...]] = {
    "harmful.destroys": (
        "rm ", "find ", "mkfs", "dd if", "shred", "/dev/", ":()", "git ", "drop ", "truncate", "delete from", "flushall", "format c", "del /", "rd /", "rmdir", "remove-item",
        "mv ", "kill ", "dropdb", "terraform", "kubectl", "docker", "aws s3", "rmtree", "rmsync", "rimraf",
    ),
    "harmful.runs-from-network": ("curl", "wget", "fetch", "iwr", "irm", "iex", "invoke-", "base64", "install", "npm", "yarn", "pnpm", "exec", "eval", "powershell"),
    "harmful.rewrites-history": ("git push", "git reset", "git branch", "force"),
    "harmful.skips-checks": (
        "--", "verif", "husky", "skip=", "git commit", "git push", "tls", "ssl", "rejectunauthorized", "chmod", "setenforce", "ufw", "iptables", "mppreference", "spctl", "csrutil",
        "nopasswd", "visudo", "hookspath", "hostkey", "knownhosts", "skip_", "disable_", "bypass_", "no_", "/etc/", "bypasspermissions",
    ),
    "harmful.gives-away": ("|", "curl", "scp", "rsync", "nc ", "ncat", "git add", "authorized_keys", "/dev/tcp", "crontab", "echo"),
}  # fmt: skip
"""One of these stands in every text that a command of the rule matches."""


def _either(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{one})" for one in patterns))


_COMMAND_RULES = {rule: (_either(patterns), _HINTS[rule]) for rule, patterns in COMMANDS.items()}
_ADVICE_RULES = {rule: _either(patterns) for rule, patterns in ADVICE.items()}


def find_harmful(text: str) -> Iterator[tuple[str, int, int]]:
    """Rule, start and end of each command or piece of advice in `text` (small letters) by which it advises harm."""
    bounds: list[tuple[int, int]] = []
    for rule, (pattern, hints) in _COMMAND_RULES.items():
        if any(hint in text for hint in hints):
            for found in pattern.finditer(text):
                bounds = bounds or sentences(text)
                if _asks(is_advised, text, found, bounds):
                    yield rule, *found.span()
    for rule, pattern in _ADVICE_RULES.items():
        for found in pattern.finditer(text):
            bounds = bounds or sentences(text)
            if _asks(is_urged, text, found, bounds):
                yield rule, *found.span()


def _asks(
    judge: Callable[[str, int, int], bool], text: str, found: re.Match[str], bounds: Sequence[tuple[int, int]]
) -> bool:
    """Whether the sentence that a match stands in advises it; `find . -delete` has a full stop of its own."""
    start = next(low for low, high in bounds if low <= found.start() < high)
    end = next(high for low, high in bounds if low < found.end() <= high)
    first, last = _code_span(text, start, *found.span())
    return judge(text[start : max(end, last)], first - start, last - start)


def _code_span(text: str, low: int, start: int, end: int) -> tuple[int, int]:
    """The code span of a line that a match stands in, without its marks: `psql -c 'drop schema …'` is one command."""
    if text.count("`", low, start) % 2 == 0 or (closing := text.find("`", end)) < 0:
        return start, end
    return text.rfind("`", low, start) + 1, closing
