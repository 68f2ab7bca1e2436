"""robots.txt (RFC 9309), read by protego: groups, rules, and which of them decides about an address.

    rules = read_robots(body, "SluiceBot")
    rules.allows("https://example.com/private")      rules.decided_by(...) → "Disallow: /private"

What is ours around the library: of a file longer than 500 KiB the lines that end before that count (2.5); a group is
ours by the whole product token (2.2.1), where protego would take `Sluice` for `SluiceBot`; only CR, LF and both end a
line; all other robots count as one. The last is a bound too: protego keeps each rule once per robot that its group
names, so that a file of 500 KiB could make it keep half a billion of them. What protego reads in another way than
Google's parser stands in `tests/unit/ingest/politeness/test_robots_txt.py` and in decision 10.
"""

from __future__ import annotations

import re

import ada_url
from protego import Protego
from protego._utils import _quote_path

from sluice.contracts.errors import InvalidInput

MAX_ROBOTS_BYTES = 500 * 1_024
MAX_SITEMAPS = 100
"""Sitemaps read from one file; more than these would never be fetched."""
MOST_SHOWN_CHARACTERS = 200

_OTHERS = "0"
"""Stands for every robot that is not ours: no product token has a digit."""
_AGENT_LINE = re.compile(
    r"^[^\S\n]*user(?:-|[^\S\n]*)agent(?=[\s:]|\Z)[^\S\n]*:?[^\S\n]*(\*(?![^\s#])|[a-z_-]+)?[^\n]*", re.I | re.M
)
"""As generous as protego, so that no line that names a robot is overlooked."""
_NO_LINE_END = str.maketrans(dict.fromkeys("\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\N{REPLACEMENT CHARACTER}"))
"""What Python ends a line with besides, and a robots.txt does not."""


class RobotsRules:
    """What a robots.txt asks of one robot. Without rules everything is allowed."""

    def __init__(self, file: Protego, token: str) -> None:
        absolute = (one for one in file.sitemaps if one.lower().startswith(("http://", "https://")))
        self.sitemaps = tuple(dict.fromkeys(absolute))[:MAX_SITEMAPS]
        """Absolute addresses as the file has them, each once: they are for every robot."""
        self.crawl_delay_seconds = file.crawl_delay(token) or 0.0
        """The pause between two requests that it asks for; 0 where it asks for none."""
        ours = file._get_matching_rule_set(token)  # noqa: SLF001  # protego tells no line that decided otherwise
        written = {pattern: path for path, pattern in file._url_patterns.items()}  # noqa: SLF001
        self._rules = [
            (rule.field == "allow", rule.value.match, f"{rule.field.capitalize()}: {written.get(rule.value, '/')}")
            for rule in (ours._rules if ours is not None else ())  # noqa: SLF001
        ]
        """Whether it allows, what it matches, how it is written; the one that decides before the others."""

    def __len__(self) -> int:
        """How many rules there are."""
        return len(self._rules)

    def allows(self, url: str) -> bool:
        """Whether `url` may be fetched.

        Raises:
            InvalidInput: `url` is not an absolute URL.
        """
        return self.decision(url)[0]

    def decided_by(self, url: str) -> str | None:
        """The rule that decides about `url`, with its path as the file has it; None where no rule speaks of it.

        At most its first 200 characters, without invisible ones.

        Raises:
            InvalidInput: `url` is not an absolute URL.
        """
        return self.decision(url)[1]

    def decision(self, url: str) -> tuple[bool, str | None]:
        """Both of these at once: the longest rule decides, and of two as long the one that allows (2.2.2)."""
        try:
            parsed = ada_url.URL(url)
        except (ValueError, UnicodeError) as error:
            raise InvalidInput("url", f"{url[:200]!r} is not a URL", "an absolute http or https address") from error
        if parsed.pathname == "/robots.txt" and not parsed.search:
            return True, None  # always allowed (2.2.2)
        path = _quote_path(f"http://host{parsed.pathname}{parsed.search}")
        for is_allowed, matches, line in self._rules:
            if matches(path):
                return is_allowed, "".join(one if one.isprintable() else " " for one in line[:MOST_SHOWN_CHARACTERS])
        return True, None


def read_robots(body: str | bytes, token: str) -> RobotsRules:
    """What the file `body` asks of the robot with the product token `token`, whatever its bytes."""
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    if len(data) >= MAX_ROBOTS_BYTES:  # its last line may be cut, and so allow or forbid what it does not mean
        data = data[:MAX_ROBOTS_BYTES]
        data = data[: max(data.rfind(b"\n"), data.rfind(b"\r")) + 1]
    text = data.decode("utf-8-sig", "replace").translate(_NO_LINE_END).replace("\r", "\n")

    def agent(line: re.Match[str]) -> str:
        name = (line[1] or "").lower()
        return f"User-agent: {name if name in ('*', token.lower()) else _OTHERS}"

    return RobotsRules(Protego.parse(_AGENT_LINE.sub(agent, text)), token)
