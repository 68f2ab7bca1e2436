"""One spelling for every address, and refusal of what is not one."""

from __future__ import annotations

import json
from pathlib import Path

import ada_url
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.errors import InvalidInput
from sluice.ingest.url import (
    MAX_HOST_CHARACTERS,
    MAX_URL_CHARACTERS,
    canonical_of,
    host_of,
    normalise_url,
    origin_of,
    registered_domain,
    same_site,
    site_of,
    within_domains,
)
from tests.support.repository import DATA

URLS = DATA / "url"


def data_file(name: str) -> Path:
    if not (URLS / name).is_file():
        pytest.skip(f"no {name} on this machine")
    return URLS / name


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("HTTP://Example.COM:80/a/../b#part", "http://example.com/b"),
        ("https://example.com:443", "https://example.com/"),
        ("https://example.com.:8443/", "https://example.com:8443/"),
        ("https://example.com/%7euser/%c3%a9", "https://example.com/~user/%C3%A9"),
        ("https://bücher.example/straße", "https://xn--bcher-kva.example/stra%C3%9Fe"),
        ("https://example.com/?b=2&utm_source=x&a=1&gclid=y", "https://example.com/?b=2&a=1"),
        ("https://example.com/?UTM_Medium=x", "https://example.com/"),
        ("https://example.com/?", "https://example.com/"),
        ("https://example.com/?a=1&a=2&&b", "https://example.com/?a=1&a=2&b"),
        ("  https://example.com/a b\n", "https://example.com/a%20b"),
        ("https://example.com/a;jsessionid=0A1B.node1/b;v=2?x=1", "https://example.com/a/b;v=2?x=1"),
        ("https://example.com/a;PHPSESSID=1", "https://example.com/a"),
        ("https://example.com/a%2e%2E;jsessionid=1", "https://example.com/a.."),
        ("https://example.com/%2E%2e;jsessionid=1", "https://example.com/..;jsessionid=1"),
        ("https://example.com/?PHPSESSID=abc&id=7&jsessionid=1", "https://example.com/?id=7"),
        ("https://example.com/?sid=0123456789abcdef0123456789abcdef", "https://example.com/"),
        (
            "https://example.com/?session_id=Ab3dEf6hIj9lMn2pQr5tUv8x&a=1",
            "https://example.com/?session_id=Ab3dEf6hIj9lMn2pQr5tUv8x&a=1",
        ),
        ("https://example.com/?session_id=Ab3dEf6hIj9lMn2pQr5tUv8xYz&a=1", "https://example.com/?a=1"),
        ("https://example.com/?sid=17", "https://example.com/?sid=17"),
        ("https://example.com/?session=opening-keynote", "https://example.com/?session=opening-keynote"),
        (
            "https://example.com/?id=0123456789abcdef0123456789abcdef",
            "https://example.com/?id=0123456789abcdef0123456789abcdef",
        ),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
    ],
)
def test_addresses_that_mean_the_same_are_written_the_same(written: str, normal: str) -> None:
    assert normalise_url(written) == normal
    assert normalise_url(normal) == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com/page",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "https://user@example.com/",
        "https://user:secret@example.com/",
        "https://exa mple.com/",
        "http://",
        "http://example.com:99999/",
        "https://xn--.example.com/",
        "https://xn--zz-zzzzzz.example.com/",
        f"https://{'a' * (MAX_HOST_CHARACTERS - 3)}.com/",
        f"https://{'a' * (MAX_HOST_CHARACTERS + 1)}/",
        "https://example.com/" + "a" * MAX_URL_CHARACTERS,
        "https://example.com/" + "é" * (MAX_URL_CHARACTERS // 2),
    ],
)
def test_what_is_not_a_web_address_is_refused_by_the_name_of_its_field(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        normalise_url(text, field="seeds.0")
    assert caught.value.field == "seeds.0"


def test_a_password_is_never_repeated_in_the_error() -> None:
    with pytest.raises(InvalidInput) as caught:
        normalise_url("https://user:hunter2@example.com/")
    assert "hunter2" not in str(caught.value)


def test_relative_links_resolve_against_their_page() -> None:
    assert normalise_url("../c?x=1#y", base="https://example.com/a/b/") == "https://example.com/a/c?x=1"


@pytest.mark.parametrize(
    ("reference", "resolved"),
    [
        ("x.html#top", "https://example.com/a/b/x.html"),
        ("/x/y?z", "https://example.com/x/y?z"),
        ("../../x", "https://example.com/x"),
        ("../../../x", "https://example.com/x"),
        ("..", "https://example.com/a/"),
        ("../", "https://example.com/a/"),
        ("../.hidden", "https://example.com/a/.hidden"),
        ("./", "https://example.com/a/b/"),
        ("/", "https://example.com/"),
        ("", "https://example.com/a/b/c?d"),
        ("#here", "https://example.com/a/b/c?d"),
        ("?e", "https://example.com/a/b/c?e"),
        ("//other.org/x", "https://other.org/x"),
        ("a'b", "https://example.com/a/b/a'b"),
        ("a b", "https://example.com/a/b/a%20b"),
        ("..\\x", "https://example.com/a/x"),
    ],
)
def test_every_kind_of_reference_resolves(reference: str, resolved: str) -> None:
    assert normalise_url(reference, base="https://example.com/a/./b/c?d#e") == resolved


@pytest.mark.parametrize("base", ["not a url", "mailto:a@b.c", "https://user:secret@example.com/a/"])
@pytest.mark.parametrize("reference", ["x", "/x", "../x"])
def test_a_reference_needs_a_base_that_is_an_address(base: str, reference: str) -> None:
    with pytest.raises(InvalidInput):
        normalise_url(reference, base=base)


PIECES = (
    *("/", "..", "../", "./", ".", "a", "b.html", "~", "%7e", "%2e", "%2E%2e", ":", "//", "?", "#", "x=1", "&", ";"),
    *("jsessionid=1", "sid=0123456789abcdef0123456789abcdef", "utm_source=x", "'", "(", "*", "=", "@", "-", "é", " "),
    *("\t", "\\", "xn--", "example.com", "1.2.3.4", "com", ":80", "http://", "https://", "HTTP://", "{", "|", "^", '"'),
)
BASES = (
    *("https://docs.example.com/guide/page", "http://x.example.org:8080/a/b/?q=/z/../y", "http://[::1]/a/b/"),
    *("https://e.com/a;jsessionid=5/b;jsessionid=1", "https://e.com/..;jsessionid=5/b", "https://e.com/a/../%7Ed/./e"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.sampled_from(BASES))
def test_what_is_told_at_a_glance_is_what_the_parser_says_and_normalising_is_final(text: str, base: str) -> None:
    try:
        once = normalise_url(text, base=base)
    except InvalidInput:
        return
    assert normalise_url(once) == once
    # The parser alone, which a tab before the text leads to: it takes tabs out, and nothing else may.
    assert normalise_url("\t" + text, base=base) == once


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_an_invalid_input_and_normalising_is_final(text: str) -> None:
    try:
        once = normalise_url("http://example.com/" + text)
    except InvalidInput:
        return
    assert normalise_url(once) == once


@pytest.mark.parametrize(
    ("declared", "canonical"),
    [
        ("/b?utm_source=x#top", "https://docs.example.com/b"),
        ("https://www.example.com/a", "https://www.example.com/a"),
        ("https://docs.example.com/a", "https://docs.example.com/a"),
        ("https://docs.example.com/?p=7", "https://docs.example.com/?p=7"),
        ("https://docs.example.com/", None),
        ("https://example.com", None),
        ("http://docs.example.com/a", None),
        ("https://example.org/a", None),
        ("https://example.com.evil.org/a", None),
        ("https://user@docs.example.com/a", None),
        ("javascript:alert(1)", None),
        ("ftp://docs.example.com/a", None),
        ("https://", None),
        ("  ", None),
        ("", None),
        (None, None),
    ],
)
def test_a_canonical_address_is_believed_on_its_own_site_only(declared: str | None, canonical: str | None) -> None:
    assert canonical_of(declared, "https://docs.example.com/a?id=1") == canonical


def test_the_home_page_may_call_itself_so_and_a_page_may_go_from_http_to_https() -> None:
    assert canonical_of("/", "https://example.com/?lang=en") is None
    assert canonical_of("https://example.com/", "http://example.com/") == "https://example.com/"
    assert canonical_of("http://127.0.0.1:9000/a", "http://127.0.0.1:8000/a") is None


def test_normalising_twice_changes_nothing_for_the_cases_of_the_url_standard() -> None:
    cases = [case for case in json.loads(data_file("urltestdata.json").read_text()) if isinstance(case, dict)]
    accepted = 0
    for case in cases:
        try:
            once = normalise_url(case["input"], base=case.get("base"))
        except InvalidInput:
            continue
        assert not case.get("failure"), case
        assert normalise_url(once) == once
        accepted += 1
    assert accepted > 100


def test_registered_domains_follow_the_public_suffix_list() -> None:
    checks = [line for line in data_file("test_psl.txt").read_text().splitlines() if line.startswith("checkPublic")]
    assert len(checks) > 50
    for line in checks:
        domain, _, expected = line[len("checkPublicSuffix(") : -2].partition(", ")
        name, wanted = domain.strip("'"), None if expected == "null" else expected.strip("'")
        if domain == "null" or name.startswith("."):
            continue
        found = registered_domain(ada_url.idna_to_ascii(name).decode())
        assert found == (ada_url.idna_to_ascii(wanted).decode() if wanted else None), line


def test_a_site_is_a_registered_domain_or_an_address_with_its_port() -> None:
    assert same_site("https://docs.example.co.uk/a", "http://example.co.uk:8080/")
    assert not same_site("https://one.github.io/", "https://two.github.io/")
    assert site_of("http://127.0.0.1:8000/x") == "127.0.0.1:8000"
    assert not same_site("http://127.0.0.1:8000/", "http://127.0.0.1:9000/")


def test_host_and_origin_are_read_off_an_address() -> None:
    assert host_of("https://[2606:4700::1]:8443/x") == "2606:4700::1"
    assert origin_of("https://example.com:8443/x?y") == "https://example.com:8443"


def test_a_domain_list_covers_subdomains_and_nothing_that_only_ends_alike() -> None:
    assert within_domains("docs.python.org", ("python.org",))
    assert within_domains("python.org.", ("*.Python.org",))
    assert not within_domains("notpython.org", ("python.org",))
