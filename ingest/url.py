"""One spelling for every address: WHATWG parsing, then a canonical form.

Promises: what `normalise_url` returns is http or https, carries no credentials, fragment, default port
or tracking parameter, and normalising it again changes nothing. The order of query parameters is kept:
servers may give it meaning, and pages link to themselves in one order anyway.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

import ada_url
from publicsuffixlist import PublicSuffixList

from contracts.errors import InvalidInput

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

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def normalise_url(text: str, *, base: str | None = None, field: str = "url") -> str:
    """The canonical form of `text`, resolved against `base` when one is given.

    Raises:
        InvalidInput: not a URL, not http or https, with credentials, without a host or too long.
            Names `field`.
    """
    if len(text) > MAX_URL_CHARACTERS:
        raise InvalidInput(field, f"{len(text)} characters long", f"at most {MAX_URL_CHARACTERS}")
    parsed = _parse(text, base, field)
    if parsed.protocol not in {"http:", "https:"}:
        raise InvalidInput(field, f"scheme {parsed.protocol.rstrip(':')!r}", "use http or https")
    if parsed.username or parsed.password:
        raise InvalidInput(field, "carries a user name or password", "remove what stands before the @")
    host = parsed.hostname.removesuffix(".")
    if not all(_is_label(label) for label in host.split(".")):
        raise InvalidInput(field, f"host {host[:200]!r} is not a name or address")
    port = f":{parsed.port}" if parsed.port else ""
    path = _normal_escapes(parsed.pathname)
    query = _without_tracking(parsed.search)
    url = f"{parsed.protocol}//{host}{port}{path}{query}"
    if len(url) > MAX_URL_CHARACTERS:
        raise InvalidInput(field, f"{len(url)} characters long once encoded", f"at most {MAX_URL_CHARACTERS}")
    return url


def host_of(url: str) -> str:
    """The host of `url` in lower case, IPv6 without its brackets.

    Raises:
        InvalidInput: `url` is not one.
    """
    return _parse(url, None, "url").hostname.strip("[]").rstrip(".")


def origin_of(url: str) -> str:
    """Scheme, host and port of `url`: what a robots.txt speaks for.

    Raises:
        InvalidInput: `url` is not one.
    """
    parsed = _parse(url, None, "url")
    return f"{parsed.protocol}//{parsed.host}"


def site_of(url: str) -> str:
    """The registered domain of `url`; for addresses and single-label names the host with its port.

    Raises:
        InvalidInput: `url` is not one.
    """
    parsed = _parse(url, None, "url")
    return registered_domain(parsed.hostname) or parsed.host


def same_site(first: str, second: str) -> bool:
    """Whether both URLs belong to one registered domain."""
    return site_of(first) == site_of(second)


def registered_domain(host: str) -> str | None:
    """The domain that its owner registered, by the Public Suffix List: `b.example.co.uk` → `example.co.uk`.

    None for addresses, single labels and public suffixes themselves.
    """
    name = host.strip("[]").rstrip(".").lower()
    if _is_address(name):
        return None
    found = _suffixes().privatesuffix(name)
    return str(found) if found else None


def within_domains(host: str, domains: tuple[str, ...]) -> bool:
    """Whether `host` is one of `domains` or below one of them."""
    name = host.strip("[]").rstrip(".").lower()
    return any(name == domain or name.endswith("." + domain) for domain in (_bare(entry) for entry in domains))


def _bare(domain: str) -> str:
    name = domain.strip().lower().removeprefix("*.").strip(".")
    return name if name.isascii() else ada_url.idna_to_ascii(name).decode()


def _parse(text: str, base: str | None, field: str) -> ada_url.URL:
    try:
        return ada_url.URL(text, base) if base is not None else ada_url.URL(text)
    except (ValueError, UnicodeError) as error:
        raise InvalidInput(field, f"{text[:200]!r} is not a URL", "an absolute http or https address") from error


def _is_label(label: str) -> bool:
    """Whether a label is not empty, and Punycode where it claims to be (the parser lets nonsense pass)."""
    if not label.startswith("xn--"):
        return bool(label)
    try:
        name = label[4:].encode("ascii").decode("punycode")
        return bool(name) and ada_url.idna_to_ascii(name) == label.encode("ascii")
    except (UnicodeError, ValueError):
        return False


def _normal_escapes(text: str) -> str:
    """Escapes in upper case, and none for characters that need none (RFC 3986, 6.2.2)."""
    return _ESCAPE.sub(_normal_escape, text)


def _normal_escape(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else f"%{match[1].upper()}"


def _without_tracking(search: str) -> str:
    kept = [pair for pair in search.removeprefix("?").split("&") if pair and not _is_tracking(pair)]
    return "?" + _normal_escapes("&".join(kept)) if kept else ""


def _is_tracking(pair: str) -> bool:
    name = _normal_escapes(pair.split("=", 1)[0]).lower()
    return name in TRACKING_PARAMETERS or name.startswith(TRACKING_PREFIXES)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
