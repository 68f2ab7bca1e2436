"""One spelling for every address: WHATWG parsing, then a canonical form.

Promises: a URL from `normalise_url` is http or https, carries no credentials, fragment, default port,
tracking parameter or certain session id, and normalising it again changes nothing. The order of query
parameters is kept: servers may give it meaning, and pages link to themselves in one order anyway.
"""

from __future__ import annotations

import ipaddress
import re
from base64 import b64encode
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote, urlsplit

import ada_url
from publicsuffixlist import PublicSuffixList

from sluice.contracts.errors import InvalidInput

MAX_URL_CHARACTERS = 4_096
"""The limit of a crawl directive; longer addresses are session state, not pages."""
TRACKING_PARAMETERS = frozenset(
    {
        *("gclid", "gclsrc", "dclid", "gbraid", "wbraid", "fbclid", "msclkid", "yclid", "twclid", "ttclid", "igshid"),
        *("mc_cid", "mc_eid", "_ga", "_gl", "_hsenc", "_hsmi", "mkt_tok", "oly_anon_id", "oly_enc_id", "vero_id"),
    }
)
"""Parameters that advertising and mail systems append; they name the visitor, never the page."""
TRACKING_PREFIXES = ("utm_", "pk_", "mtm_", "hsa_")
SESSION_PARAMETERS = frozenset({"phpsessid", "jsessionid", "cftoken", "oscsid", "zenid"})
"""Names that servers' own session handling uses, and nothing else does."""
LIKELY_SESSION_PARAMETERS = frozenset({"sid", "sessid", "session", "sessionid", "session_id", "s_id"})
"""Names that may denote a session: they do if their value is long and random."""

MAX_HOST_CHARACTERS = 253
"""Longest name that can be looked up (RFC 1035, 2.3.4: 255 octets, of which two are no characters of it)."""

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SESSION_IN_PATH = re.compile(r"(?<!/\.)(?<!/\.\.);(?:jsessionid|phpsessid)=[^/;]*", re.IGNORECASE)
"""The session stays after a segment of one or two dots, which would change the path without it."""
_PLAIN_HOST = re.compile(r"https?://(?P<host>(?![^/]*xn--)(?>(?:[a-z0-9][a-z0-9-]*+\.)+)[a-z]{2,}+)/")
_RANDOM = re.compile(r"[0-9a-f]{24,}|(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[0-9A-Za-z_-]{26,}", re.IGNORECASE)
_KNOWN_HOSTS = 4_096
"""Most judged hosts that are cached: the links of a page lead to few."""


def normalise_url(text: str, *, base: str | None = None, field: str = "url") -> str:
    """Return the canonical form of `text`, resolved against `base` if one is given.

    Raises InvalidInput, naming `field`: not a URL, not http or https, with credentials, without a host or too long.
    """
    if len(text) > MAX_URL_CHARACTERS:
        raise InvalidInput(field, f"{len(text)} characters long", f"at most {MAX_URL_CHARACTERS}")
    scheme, authority, path, query = _split(_parse(text, base, field).href, field)
    if "@" in authority:
        raise InvalidInput(field, "carries a user name or password", "remove what stands before the @")
    host, port = _split_authority(authority)
    host = host.removesuffix(".")
    if len(host) > MAX_HOST_CHARACTERS:
        raise InvalidInput(field, f"a host of {len(host)} characters", f"at most {MAX_HOST_CHARACTERS}")
    if not _is_host(host):
        raise InvalidInput(field, f"host {host[:200]!r} is not a name or address")
    path = _normal_escapes(path)
    if ";" in path:
        path = _SESSION_IN_PATH.sub("", path)
    url = f"{scheme}://{host}{port}{path}{_without_session(query)}"
    if len(url) > MAX_URL_CHARACTERS:
        raise InvalidInput(field, f"{len(url)} characters long once encoded", f"at most {MAX_URL_CHARACTERS}")
    return url


def canonical_of(declared: str | None, page_url: str) -> str | None:
    """Return the address that the page at `page_url` declares as its own, in canonical form, if it is credible.

    None for anything but a web address, for another registered domain, for a step from https back to http, and for the
    home page if the page is deeper: such declarations collapse a whole site into one page by mistake.
    """
    if not declared or not declared.strip():
        return None
    try:
        canonical = normalise_url(declared, base=page_url)
        if not same_site(canonical, page_url):
            return None
    except InvalidInput:
        return None
    goes_back = page_url.startswith("https:") and canonical.startswith("http:")
    return None if goes_back or (_is_home(canonical) and not _is_home(page_url)) else canonical


def host_of(url: str) -> str:
    """Return the host of `url` in lower case, IPv6 without its brackets. Raises InvalidInput unless it is a URL."""
    return _parse(url, None, "url").hostname.strip("[]").rstrip(".")


def origin_of(url: str) -> str:
    """Return scheme, host and port of `url`: the scope of a robots.txt. Raises InvalidInput unless it is a URL."""
    parsed = _parse(url, None, "url")
    return f"{parsed.protocol}//{parsed.host}"


def site_of(url: str) -> str:
    """Return the registered domain of `url`; for addresses and single labels host and port. Raises as `host_of`."""
    plain = _PLAIN_HOST.match(url)
    return _site_of_host(plain["host"] if plain else _parse(url, None, "url").host)


def same_site(first: str, second: str) -> bool:
    """Return whether both URLs belong to one registered domain."""
    return site_of(first) == site_of(second)


def registered_domain(host: str) -> str | None:
    """Return the domain that its owner registered, by the Public Suffix List: `b.example.co.uk` → `example.co.uk`.

    None for addresses, single labels and public suffixes themselves.
    """
    name = host.strip("[]").rstrip(".").lower()
    if _is_address(name):
        return None
    found = _suffixes().privatesuffix(name)
    return str(found) if found else None


def within_domains(host: str, domains: tuple[str, ...]) -> bool:
    """Return whether `host` is one of `domains` or below one of them."""
    name = host.strip("[]").rstrip(".").lower()
    return any(name == domain or name.endswith("." + domain) for domain in (_bare(entry) for entry in domains))


@dataclass(frozen=True, slots=True)
class ProxyAddress:
    """A proxy's address, and the credentials for it."""

    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def at(cls, url: str, *, default_port: int | None = None) -> ProxyAddress:
        """Parse `http://user:password@host:port`.

        Raises InvalidInput for anything else; the error does not show it, as it may hold a password.
        """
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port or default_port
        except ValueError:
            host, port = None, None
        if parts.scheme != "http" or not host or not port or parts.path not in ("", "/"):
            raise InvalidInput("proxy_url", "is not the address of a proxy", "http://user:password@host:port")
        return cls(host, port, unquote(parts.username or ""), unquote(parts.password or ""))

    @property
    def headers(self) -> dict[str, str]:
        """The header with the credentials (RFC 7617); empty if there are none."""
        if not self.username:
            return {}
        credentials = b64encode(f"{self.username}:{self.password}".encode()).decode()
        return {"Proxy-Authorization": f"Basic {credentials}"}


def _bare(domain: str) -> str:
    name = domain.strip().lower().removeprefix("*.").strip(".")
    return name if name.isascii() else ada_url.idna_to_ascii(name).decode()


def _parse(text: str, base: str | None, field: str) -> ada_url.URL:
    try:
        return ada_url.URL(text, base) if base is not None else ada_url.URL(text)
    except (ValueError, UnicodeError) as error:
        raise InvalidInput(field, f"{text[:200]!r} is not a URL", "an absolute http or https address") from error


def _split(href: str, field: str) -> tuple[str, str, str, str]:
    """Return scheme, authority, path and query of a web URL. Raises InvalidInput, naming `field`, for other schemes."""
    scheme, _, rest = href.partition(":")
    if scheme not in {"http", "https"}:
        raise InvalidInput(field, f"scheme {scheme!r}", "use http or https")
    before, _, query = rest.partition("#")[0].partition("?")
    authority, _, path = before[2:].partition("/")
    return scheme, authority, f"/{path}", query


def _split_authority(authority: str) -> tuple[str, str]:
    """Return the host, and the port with its colon if one is named."""
    host, colon, port = authority.rpartition(":")
    return (host, f":{port}") if colon and not port.endswith("]") else (authority, "")


def _is_home(url: str) -> bool:
    return url.partition("://")[2].partition("/")[2] == ""


@lru_cache(maxsize=_KNOWN_HOSTS)
def _is_host(host: str) -> bool:
    return all(_is_label(label) for label in host.split("."))


@lru_cache(maxsize=_KNOWN_HOSTS)
def _site_of_host(host_and_port: str) -> str:
    return registered_domain(_split_authority(host_and_port)[0]) or host_and_port


def _is_label(label: str) -> bool:
    """Return whether a label is not empty, and is Punycode if it claims to be (the parser accepts nonsense)."""
    if not label.startswith("xn--"):
        return bool(label)
    try:
        name = label[4:].encode("ascii").decode("punycode")
        return bool(name) and ada_url.idna_to_ascii(name) == label.encode("ascii")
    except (UnicodeError, ValueError):
        return False


def _normal_escapes(text: str) -> str:
    """Write escapes in upper case, and none for characters that need none (RFC 3986, 6.2.2)."""
    return _ESCAPE.sub(_normal_escape, text) if "%" in text else text


def _normal_escape(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else f"%{match[1].upper()}"


def _without_session(query: str) -> str:
    """Return the query without parameters that name a visitor, with its question mark unless it is empty."""
    if not query:
        return ""
    kept = [pair for pair in query.split("&") if pair and not _names_visitor(pair)]
    return "?" + _normal_escapes("&".join(kept)) if kept else ""


def _names_visitor(pair: str) -> bool:
    name, _, value = pair.partition("=")
    name = _normal_escapes(name).lower()
    if name in LIKELY_SESSION_PARAMETERS:
        return _RANDOM.fullmatch(_normal_escapes(value)) is not None
    return name in TRACKING_PARAMETERS or name in SESSION_PARAMETERS or name.startswith(TRACKING_PREFIXES)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
