"""robots.txt as RFC 9309 has it: groups, rules, and which of them decides about an address.

    file = parse_robots(body)
    rules = file.rules_for("SluiceBot")
    rules.allows("https://example.com/private")      rules.decided_by(...) → "Disallow: /private"

Promises: every input is read, whatever its bytes, in time linear in the file; a rule goes through an address once,
however many asterisks it has; rules and addresses are compared in one spelling, so that `%62` and `b`, `%7e` and `~`,
`ツ` and `%E3%83%84` are the same (2.2.2).

Where the RFC leaves it open, or sites do not follow it:

- Lines end with CR, LF or both. A line without a colon is read where its first word is a known field; the common
  misspellings of `Disallow` count as it does.
- A rule that begins with neither `/` nor `*` is read as if it began with `/`.
- `Crawl-delay` holds for the robots named above it. It ends no list of robots, and neither does any unknown line.
- Of a file longer than 500 KiB, the lines that end before that (2.5).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import ada_url

from sluice.contracts.errors import InvalidInput

MAX_ROBOTS_BYTES = 500 * 1_024
MAX_SITEMAPS = 100
"""Sitemaps read from one file; more than these would never be fetched."""
MOST_SHOWN_CHARACTERS = 200
EVERYBODY = "*"

_FIELDS = {
    **dict.fromkeys((b"user-agent", b"useragent", b"user agent"), "agent"),
    b"allow": "allow",
    **dict.fromkeys((b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw"), "disallow"),
    **dict.fromkeys((b"crawl-delay", b"crawl delay", b"crawldelay"), "delay"),
    **dict.fromkeys((b"sitemap", b"sitemaps", b"site-map"), "sitemap"),
}
_MOST_WORDS_OF_A_FIELD = 2
_NO_BREAK_SPACE = "\N{NO-BREAK SPACE}".encode()
"""Word processors write it where a space is meant."""
_AGENT = re.compile(rb"\*(?=\s|$)|[A-Za-z_-]+")
_TO_REWRITE = re.compile(rb"%([0-9A-Fa-f]{2})|[^!-$&-~]")
"""Escapes, and the octets that are written as escapes: what is not printable, and a percent sign that begins none."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """One `Allow` or `Disallow`. `pieces` stand between its asterisks; `octets` is its length in the normal form."""

    allow: bool
    line: bytes
    pieces: tuple[bytes, ...]
    is_anchored: bool
    octets: int

    def matches(self, path: bytes) -> bool:
        """Whether the rule speaks of `path`: the first place for each piece is as good as any later one."""
        first, *middle = self.pieces
        if not path.startswith(first):
            return False
        if not middle:
            return not self.is_anchored or path == first
        last = middle.pop()
        at = len(first)
        for piece in middle:
            at = path.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        if self.is_anchored:
            return len(path) - len(last) >= at and path.endswith(last)
        return path.find(last, at) >= 0


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """What a robots.txt asks of one robot. Without rules everything is allowed."""

    crawl_delay_seconds: float = 0.0
    """The longest pause between two requests that it asks for; 0 where it asks for none."""
    _rules: tuple[_Rule, ...] = ()
    """The longest first, and of two as long the one that allows: so the first that matches decides (2.2.2)."""

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
        """The line that decides about `url`, as it stands in the file; None where no rule speaks of it.

        At most its first 200 characters, without invisible ones.

        Raises:
            InvalidInput: `url` is not an absolute URL.
        """
        return self.decision(url)[1]

    def decision(self, url: str) -> tuple[bool, str | None]:
        """Both of these at once."""
        path = _path_of(url)
        if path == b"/robots.txt":
            return True, None  # always allowed (2.2.2)
        rule = next((rule for rule in self._rules if rule.matches(path)), None)
        return (True, None) if rule is None else (rule.allow, _shown(rule.line))


@dataclass(slots=True)
class _Group:
    """Robots, each with the number of the line that named it first, and what is asked of them."""

    agents: dict[str, int] = field(default_factory=dict)
    rules: list[tuple[bool, bytes, bytes]] = field(default_factory=list)
    """Whether it allows, its path as written, its line."""
    delays: list[tuple[int, float]] = field(default_factory=list)
    """The number of the line, and the seconds."""


@dataclass(frozen=True, slots=True)
class RobotsFile:
    """A robots.txt. `sitemaps` are absolute addresses as written, each once, for every robot."""

    sitemaps: tuple[str, ...] = ()
    _groups: tuple[_Group, ...] = ()

    def rules_for(self, product_token: str) -> RobotsRules:
        """The rules of all groups that name this robot, in any case; of those for `*` where none does (2.2.1)."""
        for agent in (product_token.lower(), EVERYBODY):
            groups = [group for group in self._groups if agent in group.agents]
            if groups:
                return _merged(groups, agent)
        return RobotsRules()


def _merged(groups: list[_Group], agent: str) -> RobotsRules:
    """What the groups ask of one robot, as one."""
    delays = [seconds for group in groups for line, seconds in group.delays if line > group.agents[agent]]
    written = dict.fromkeys(rule for group in groups for rule in group.rules)
    rules = [_rule(allow, path, line) for allow, path, line in written]
    rules.sort(key=lambda rule: (-rule.octets, not rule.allow))
    return RobotsRules(max(delays, default=0.0), tuple(rules))


def parse_robots(text: str | bytes) -> RobotsFile:
    """The file that `text` is."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    groups: list[_Group] = []
    sitemaps: dict[str, None] = {}
    has_rules = True
    for number, (name, value, line) in enumerate(_records(data)):
        if name == "agent":
            if has_rules:
                groups.append(_Group())
                has_rules = False
            groups[-1].agents.setdefault(_agent(value), number)
        elif name == "sitemap":
            if len(sitemaps) < MAX_SITEMAPS and value.lower().startswith((b"http://", b"https://")):
                sitemaps[value.decode("utf-8", "replace")] = None
        elif not groups:
            continue  # rules without a robot
        elif name == "delay":
            groups[-1].delays += [(number, seconds) for seconds in _seconds(value)]
        else:
            has_rules = True
            if value:
                groups[-1].rules.append((name == "allow", value, line))
    return RobotsFile(tuple(sitemaps), tuple(groups))


def _records(data: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    """The known fields of the file with their values and lines, in order."""
    whole = data.removeprefix(b"\xef\xbb\xbf")
    if len(data) >= MAX_ROBOTS_BYTES:  # its last line may be cut, and so allow or forbid what it does not mean
        cut = whole[:MAX_ROBOTS_BYTES]
        whole = cut[: max(cut.rfind(b"\n"), cut.rfind(b"\r")) + 1]
    for raw in whole.replace(_NO_BREAK_SPACE, b" ").splitlines():
        line = raw.partition(b"#")[0].strip()
        found = _field(line)
        if found is not None:
            yield *found, line


def _field(line: bytes) -> tuple[str, bytes] | None:
    before, colon, after = line.partition(b":")
    name = _FIELDS.get(before.strip().lower())
    if colon and name is not None:
        return name, after.strip()
    words = line.split(None, _MOST_WORDS_OF_A_FIELD)
    for count in range(1, _MOST_WORDS_OF_A_FIELD + 1):
        name = _FIELDS.get(b" ".join(words[:count]).lower())
        if name is not None:
            return name, b" ".join(words[count:])
    return None


def _agent(value: bytes) -> str:
    """The product token that a value begins with; a version or a comment may follow it (2.2.1)."""
    found = _AGENT.match(value)
    return found[0].decode().lower() if found else ""


def _seconds(value: bytes) -> Iterator[float]:
    """The value as seconds, where it is a number of them."""
    try:
        seconds = float(value)
    except ValueError:
        return
    if math.isfinite(seconds) and seconds > 0:
        yield seconds


def _rule(allow: bool, path: bytes, line: bytes) -> _Rule:
    written = path if path.startswith((b"/", b"*")) else b"/" + path
    is_anchored = written.endswith(b"$")
    pieces = tuple(_normal(piece) for piece in (written[:-1] if is_anchored else written).split(b"*"))
    octets = sum(map(len, pieces)) + len(pieces) - 1 + is_anchored
    plain = (pieces[0], *filter(None, pieces[1:-1]), pieces[-1]) if len(pieces) > 1 else pieces
    return _Rule(allow, line, plain, is_anchored, octets)


def _shown(line: bytes) -> str:
    """The line for people to read, whatever a hostile site wrote into it."""
    text = line.decode("utf-8", "replace")[:MOST_SHOWN_CHARACTERS]
    return "".join(character if character.isprintable() else " " for character in text)


def _path_of(url: str) -> bytes:
    """Path and query of `url`, in the normal form."""
    try:
        parsed = ada_url.URL(url)
    except (ValueError, UnicodeError) as error:
        raise InvalidInput("url", f"{url[:200]!r} is not a URL", "an absolute http or https address") from error
    return _normal(f"{parsed.pathname}{parsed.search}".encode())


def _normal(path: bytes) -> bytes:
    """One spelling of `path` (2.2.2): printable ASCII as it is, anything else and the percent sign itself as escapes.

    Whether a reserved character is escaped makes no difference, as the RFC has rules and addresses escape them all.
    """
    return _TO_REWRITE.sub(_rewritten, path)


def _rewritten(match: re.Match[bytes]) -> bytes:
    octet = int(match[1], 16) if match[1] else match[0][0]
    return bytes((octet,)) if 0x21 <= octet <= 0x7E and octet != 0x25 else b"%%%02X" % octet
