"""One spelling for every address, and refusal of what is not one."""

from __future__ import annotations

import json
from pathlib import Path

import ada_url
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import InvalidInput
from ingest.url import (
    MAX_URL_CHARACTERS,
    host_of,
    normalise_url,
    origin_of,
    registered_domain,
    same_site,
    site_of,
    within_domains,
)

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "url"


def data_file(name: str) -> Path:
    if not (DATA / name).is_file():
        pytest.skip(f"no {name} on this machine")
    return DATA / name


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
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
    ],
)
def test_addresses_that_mean_the_same_are_written_the_same(written: str, normal: str) -> None:
    assert normalise_url(written) == normal


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


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_an_invalid_input_and_normalising_is_final(text: str) -> None:
    try:
        once = normalise_url("http://example.com/" + text)
    except InvalidInput:
        return
    assert normalise_url(once) == once


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
