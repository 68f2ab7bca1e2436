"""Rules for robots in robots.txt, in a page and in its response.

`read_robots` reads a robots.txt (RFC 9309) by protego: groups, rules, and the rule that decides about an address.

    rules = read_robots(body, "SluiceBot")
    rules.decision("https://example.com/private") → False, "Disallow: /private"

Our additions to the library: of a file longer than 500 KiB only the lines that end before that count (2.5); a group
is ours by the whole product token (2.2.1), where protego would take `Sluice` for `SluiceBot`; only CR, LF and both end
a line; all other robots count as one. The last is a bound too: protego keeps each rule once per robot that its group
names, so that a file of 500 KiB could make it keep half a billion of them. Differences between protego and
Google's parser are in `tests/unit/ingest/politeness/test_robots_txt.py` and in decision 10.

`read_directives` reads `<meta name=robots>` and the `X-Robots-Tag` header. Directives for all robots and
those for ours by name hold together: a prohibition in either counts, as in search engines. Reading takes
time linear in the input; unintelligible directives forbid nothing; `none` is `noindex, nofollow`; a page whose
`unavailable_after` has passed is `noindex`. There is no RFC; the words are those of Google's and Bing's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import ada_url
from protego import Protego
from protego._utils import _quote_path

from sluice.contracts.errors import InvalidInput
from sluice.ingest.moments import read_moment

MAX_ROBOTS_BYTES = 500 * 1_024
MAX_SITEMAPS = 100
"""Most sitemaps read from one file; more than these would never be fetched."""
MOST_SHOWN_CHARACTERS = 200

_OTHERS = "0"
"""Stands for every robot that is not ours: no product token has a digit."""
_AGENT_LINE = re.compile(
    r"^[^\S\n]*user(?:-|[^\S\n]*)agent(?=[\s:]|\Z)[^\S\n]*:?[^\S\n]*(\*(?![^\s#])|[a-z_-]+)?[^\n]*", re.I | re.M
)
"""As lenient as protego, so that no line that names a robot is overlooked."""
_NO_LINE_END = str.maketrans(dict.fromkeys("\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\N{REPLACEMENT CHARACTER}"))
"""Characters that end a line in Python but not in a robots.txt."""


class RobotsRules:
    """The rules of a robots.txt for one robot. Without rules everything is allowed."""

    def __init__(self, file: Protego, token: str) -> None:
        absolute = (one for one in file.sitemaps if one.lower().startswith(("http://", "https://")))
        self.sitemaps = tuple(dict.fromkeys(absolute))[:MAX_SITEMAPS]
        """Absolute addresses as the file has them, each once: they are for every robot."""
        self.crawl_delay_seconds = file.crawl_delay(token) or 0.0
        """The demanded pause between two requests; 0 if there is none."""
        ours = file._get_matching_rule_set(token)  # noqa: SLF001  # protego tells no line that decided otherwise
        written = {pattern: path for path, pattern in file._url_patterns.items()}  # noqa: SLF001
        self._rules = [
            (rule.field == "allow", rule.value.match, f"{rule.field.capitalize()}: {written.get(rule.value, '/')}")
            for rule in (ours._rules if ours is not None else ())  # noqa: SLF001
        ]
        """Whether a rule allows, its matcher, and its text; in order of precedence."""

    def __len__(self) -> int:
        """Return the number of rules."""
        return len(self._rules)

    def decision(self, url: str) -> tuple[bool, str | None]:
        """Return whether `url` may be fetched, and the deciding rule, with its path as the file has it.

        The longest rule decides, and of two equally long the one that allows (2.2.2). No rule (None) allows. At most
        the first 200 characters of a rule are shown, without invisible ones. Raises InvalidInput unless `url` is an
        absolute URL.
        """
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
    """Read the rules of the file `body`, any bytes, for the robot with the product token `token`."""
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    if len(data) >= MAX_ROBOTS_BYTES:  # its last line may be cut, which could reverse its meaning
        data = data[:MAX_ROBOTS_BYTES]
        data = data[: max(data.rfind(b"\n"), data.rfind(b"\r")) + 1]
    text = data.decode("utf-8-sig", "replace").translate(_NO_LINE_END).replace("\r", "\n")

    def agent(line: re.Match[str]) -> str:
        name = (line[1] or "").lower()
        return f"User-agent: {name if name in ('*', token.lower()) else _OTHERS}"

    return RobotsRules(Protego.parse(_AGENT_LINE.sub(agent, text)), token)


MAX_CHARACTERS = 2_000
"""Most characters read of one line or one element; an honest one has a hundred."""

_AGENT = re.compile(r"\s*(?P<agent>\*|[a-z_-]+)(?:/[^\s:]*)?\s*:(?P<rest>.*)", re.DOTALL)
"""A robot's name before the directives for it; no part of a date matches."""
_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_EXPIRY = "unavailable_after"
_NUMBER = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class Directives:
    """Robots directives of a page. `unavailable_after` is in UTC, which is assumed if no zone is given."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False
    nosnippet: bool = False
    max_snippet: int | None = None
    """Most characters of the text that may be shown, from `max-snippet`; None is unlimited."""
    unavailable_after: datetime | None = None


def read_directives(headers: str | None, metas: Iterable[tuple[str, str]], token: str, now: datetime) -> Directives:
    """Combine the directives for the robot with the product token `token`.

    `headers` holds the `X-Robots-Tag` lines, parted by line breaks: a robot's name holds only in its own line. `metas`
    are name and content of the page's `<meta>` elements; those of other names are ignored. `now` has a zone.
    """
    ours = token.lower()
    parts = list(_header_parts(headers or "", ours))
    for name, content in metas:
        if name.strip().lower() in {"robots", ours}:
            parts += content[:MAX_CHARACTERS].lower().split(",")
    words = frozenset(word for part in parts if ":" not in part for word in part.replace(";", " ").split())
    limits = frozenset(_snippet_limits(parts))
    expires_at = min(_dates(parts), default=None)
    has_expired = expires_at is not None and expires_at <= now
    return Directives(
        noindex=has_expired or not words.isdisjoint({"noindex", "none"}),
        nofollow=not words.isdisjoint({"nofollow", "none"}),
        noarchive=not words.isdisjoint({"noarchive", "nocache"}),
        nosnippet="nosnippet" in words or 0 in limits,
        max_snippet=min((limit for limit in limits if limit), default=None),
        unavailable_after=expires_at,
    )


def _header_parts(headers: str, ours: str) -> Iterator[str]:
    """Yield the comma-separated parts of each line that address us or all robots."""
    for line in headers.lower().split("\n"):
        agent = ""
        for part in line[:MAX_CHARACTERS].split(","):
            named = _AGENT.fullmatch(part)
            if named and named["agent"] not in _WITH_VALUE:
                agent, part = named["agent"], named["rest"]
            if agent in {"", "*", ours}:
                yield part


def _dates(parts: list[str]) -> Iterator[datetime]:
    """Yield the moments after which the page is gone. Rejoins dates that a comma (`Tue, 25 Jun …`) split."""
    for part, following in pairwise([*parts, ""]):
        name, _, value = part.partition(":")
        if name.strip() == _EXPIRY:
            found = read_moment(value.upper()) or read_moment(f"{value},{following}".upper())
            if found is not None:
                yield found


def _snippet_limits(parts: list[str]) -> Iterator[int]:
    """Yield the numbers of `max-snippet`; -1, for no limit, is left out."""
    for part in parts:
        name, _, value = part.partition(":")
        if name.strip() == "max-snippet" and _NUMBER.fullmatch(value.strip()):
            yield int(value)
