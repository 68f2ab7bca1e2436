"""Private data is found by its form and its check digits; what only looks like it is not."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from bench.private.made_up import SECRETS
from sluice.trust.private.kinds import LENGTHS, has_iban_digits
from sluice.trust.private.mask import mask
from sluice.trust.private.patterns import PatternFinder
from sluice.trust.settings import TrustSettings

FINDER = PatternFinder()


def found(text: str) -> list[tuple[str, str]]:
    return [(span.kind, text[span.start : span.end]) for span in FINDER.find(text)]


@pytest.mark.parametrize(
    "number",
    [
        "4111111111111111",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "378282246310005",
        "3782 822463 10005",
        "30569309025904",
        "6011111111111117",
        "3530111333300000",
        "5555.5555.5555.4444",
        "2223003122003222",
        "6304000000000000",
    ],
)
def test_a_card_number_is_found_in_a_run_and_in_groups(number: str) -> None:
    assert found(f"Charge it to {number}, please.") == [("card", number)]


@pytest.mark.parametrize(
    "text",
    [
        "4111111111111112",  # the check digit is wrong
        "pi is 0.4111111111111111",
        "a4111111111111111",
        "order number 4111111111111111",
        "9111111111111111",  # no issuer's prefix
        "ISBN 978-3-16-148410-0",
        "1609459200000 and 20230101120000",
        "Rows 1999-2000 2001-2002 2003-2004",
    ],
)
def test_other_long_numbers_are_no_cards(text: str) -> None:
    assert [kind for kind, _ in found(text)] == []


@pytest.mark.parametrize(
    "account",
    [
        "GB82WEST12345698765432",
        "GB82 WEST 1234 5698 7654 32",
        "gb82west12345698765432",
        "DE89 3704 0044 0532 0130 00",
        "FR14 2004 1010 0505 0001 3M02 606",
        "NO93-8601-1117-947",
        "MT84MALT011000012345MTLCAST001S",
    ],
)
def test_an_iban_is_found_in_any_case_and_in_groups(account: str) -> None:
    assert found(f"Account {account} is mine") == [("iban", account)]


def test_an_iban_with_wrong_check_digits_or_length_is_none() -> None:
    assert found("GB83WEST12345698765432 GB82WEST1234569876543 DE89370400440532013000X") == []


def test_every_country_has_its_length() -> None:
    for country, length in LENGTHS.items():
        body = "0" * (length - 4)
        check = next(f"{number:02}" for number in range(2, 99) if has_iban_digits(f"{country}{number:02}{body}"))
        assert found(f"{country}{check}{body}") == [("iban", f"{country}{check}{body}")], country


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("write to jane.doe+news@mail.example.co.uk.", "jane.doe+news@mail.example.co.uk"),
        ("<mailto:a@163.com>", "a@163.com"),
        ("Jörg: jörg@müller.de", "jörg@müller.de"),
        ("'o'brien@example.com'", "o'brien@example.com"),
        ("x@host.internal", "x@host.internal"),
    ],
)
def test_an_email_address_is_found(text: str, address: str) -> None:
    assert found(text) == [("email", address)]


@pytest.mark.parametrize(
    "text",
    [
        "npm install lodash@4.17.21 react@18.0.0-beta",
        "git clone git@github.com:owner/repo.git",
        "scp file user@example.com:path",
        "@app.route('/') def view(): matrix = a@b.T",
        "https://user@example.com/path",
        "logo@2x.png",
    ],
)
def test_what_has_an_at_sign_is_not_always_an_email_address(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("address", ["203.0.113.7", "8.8.8.8", "192.168.1.20", "2001:db8::8a2e:370:7334", "fe80::1"])
def test_an_address_of_a_machine_is_found(address: str) -> None:
    assert found(f"It came from {address} at noon") == [("ip", address)]


@pytest.mark.parametrize(
    "text",
    [
        "version 1.2.3.4",
        "v10.0.19.1 and python-3.11.0.2",
        "3.2.1.4 Scope of this part",
        "see section 4.2.1.3",
        "127.0.0.1, 0.0.0.0, 255.255.255.0, ::1 and ::",
        "std::vector a::b abc::Add x[1::2] 12:34:56",
        "999.1.1.1 1.2.3.4.5",
        "00:1b:44:11:3a:b7",
    ],
)
def test_versions_sections_and_names_are_no_addresses(text: str) -> None:
    assert found(text) == []


def test_a_social_security_number_is_found_with_dashes_or_beside_its_name() -> None:
    assert found("it is 512-43-7788.") == [("ssn", "512-43-7788")]
    assert found("SSN: 512 43 7788") == [("ssn", "512 43 7788")]
    assert found("my social security number is 512437788") == [("ssn", "512437788")]


@pytest.mark.parametrize(
    "text", ["000-12-3456", "666-12-3456", "912-12-3456", "512-00-7788", "order 512-43-7788", "512437788"]
)
def test_numbers_that_are_never_issued_are_no_social_security_numbers(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("ring +44 20 7946 0958 today", "+44 20 7946 0958"),
        ("+41 (0)71 526 99 04", "+41 (0)71 526 99 04"),
        ("001-518-640-0854", "001-518-640-0854"),
        ("(602) 272-9781", "(602) 272-9781"),
        ("541-714-1388", "541-714-1388"),
        ("Tel.: 030 901820", "030 901820"),
        ("call me at 555 0199 88", "555 0199 88"),
    ],
)
def test_a_telephone_number_is_found_by_its_form_or_the_word_beside_it(text: str, number: str) -> None:
    assert found(text) == [("phone", number)]


@pytest.mark.parametrize(
    "text",
    [
        "call 2021-03-04 the day",
        "The tel was 1999-2003",
        "pages 312-415-9",
        "lat +48.137154, +11.576124",
        "order 541-714-1388",
        "<Buffer 66 00 68 00 71 00 77 00 68 00> and 01 00 00 00 50 32",
        "assert.deepEqual('+00000000') http://example.org/onlinepubs/009695399/basedefs",
        "most recent call last: 50331648 bytes",
        "1 000 000 people phoned",
    ],
)
def test_dates_spans_and_coordinates_are_no_telephone_numbers(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("frame", ["{}", 'key = "{}"', "Use `{}` here.", "it is {}, and (it) works"])
def test_a_secret_of_a_known_form_is_found(kind: str, frame: str) -> None:
    for seed in range(5):
        text = frame.format(SECRETS[kind](random.Random(seed)))
        assert any(span.is_secret for span in FINDER.find(text)), text


@pytest.mark.parametrize(
    "text",
    [
        "postgres://user:password@localhost/db and https://<user>:<password>@host and amqp://guest:guest@host",
        "Authorization: Bearer YOUR_ACCESS_TOKEN",
        'password = "${DB_PASSWORD}"; token = os.environ["API_TOKEN"]',
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----",
    ],
)
def test_placeholders_hashes_and_public_keys_are_no_secrets(text: str) -> None:
    assert found(text) == []


def wide(text: str) -> str:
    return "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in text)


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("card", "4111\u200b1111\u200b1111\u200b1111"),
        ("card", "4111\u00ad111111111111"),
        ("card", "4111\u2060 1111 1111 1111"),
        ("card", wide("4111111111111111")),
        ("card", "&#52;111 1111&nbsp;1111 1111"),
        ("card", "4111%201111%201111%201111"),
        ("card", "4111|1111|1111|1111"),
        ("card", "4111/1111/1111/1111"),
        ("iban", "GB82\u200bWEST12345698765432"),
        ("iban", "GB82%20WEST%201234%205698%207654%2032"),
        ("email", "jane%40example.com"),
        ("email", "jane&commat;example.com"),
        ("email", wide("jane@example.com")),
        ("ssn", "512\u200b-43\u200b-7788"),
        ("ip", wide("203.0.113.7")),
        ("secret.sluice-key", "slk_AbCdEf0123456789abcdefXYZ"),
        ("secret.aws-access-token", "AKIAIOSFODNN\n7EXAMPLQ"),
        ("secret.aws-access-token", "AKIAIOSF\\\n  ODNN7EXAMPLQ"),
        ("secret.aws-access-token", "AKIA\u200bIOSFODNN7EXAMPLQ"),
    ],
)
def test_a_value_in_another_spelling_is_found_where_it_stands(kind: str, written: str) -> None:
    assert found(f"It is {written} (mine)") == [(kind, written)]


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ("password: hunter2!", "hunter2!"),
        ('Password = "Tr0ub4dor&3"', "Tr0ub4dor&3"),
        ("DB_PASSWORD=s3cr3tpw", "s3cr3tpw"),
        ('{"user": "a", "password": "Winter2024!"}', "Winter2024!"),
        ("the password is Blue42Sky", "Blue42Sky"),
        ("**Passwort**: Apfel#baum", "Apfel#baum"),
        ("pwd=abc%21defg", "abc%21defg"),
    ],
)
def test_a_password_beside_its_word_is_found(text: str, password: str) -> None:
    assert found(text) == [("secret.password", password)]


@pytest.mark.parametrize(
    "text",
    [
        "password: required, password: string and passwords: see chapter2",
        "password = getpass.getpass(); pwd = os.getcwd(); passwd = self.conf.value1",
        "PASSWORD=$PASS1 password=${DB_PASS2} password: <your-password1> PASSWORD=CHANGE_ME_1",
        "The password is hashed with SHA-256. Password: 8 characters, one digit",
        '{"password": "password123"}',
    ],
)
def test_talk_of_passwords_is_none(text: str) -> None:
    assert found(text) == []


def test_what_is_proven_is_masked_by_default() -> None:
    text = "4111111111111111 GB82WEST12345698765432 slk_AbCdEf0123456789abcdefXYZ jane@example.com"
    shown = mask(text, FINDER.find(text), TrustSettings().mask).text
    assert shown == "[card] [iban] [secret: sluice-key] jane@example.com"


def test_a_key_block_that_was_cut_is_found_on_both_sides_of_the_cut() -> None:
    whole = SECRETS["private key"](random.Random(1))
    lines = whole.split("\n")
    for part in ("\n".join(lines[:4]), "\n".join(lines[4:])):
        assert [kind for kind, _ in found(part)] == ["secret.private-key"]


def test_spans_are_in_order_and_never_overlap() -> None:
    text = "https://app:Sup3rS3cr3t9@db.example.com mail a@b.com card 4111111111111111 tel +44 20 7946 0958"
    spans = FINDER.find(text)
    assert [span.kind for span in spans] == ["secret.basic-auth-url", "email", "card", "phone"]
    assert all(before.end <= after.start for before, after in pairwise(spans))


def test_the_version_is_of_rules_and_code() -> None:
    assert len(FINDER.version) == 12
    assert FINDER.version == PatternFinder().version
