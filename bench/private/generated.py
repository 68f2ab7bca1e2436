"""Texts made by rule: private data in many written forms, and figures that only look like it.

Values are random; another seed makes another set.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from bench.private.made_up import text
from sluice.trust.private.kinds import LENGTHS, has_iban_digits, has_luhn_digit

DIGITS = "0123456789"
Maker = Callable[[random.Random], str]


def _card(rng: random.Random) -> str:
    prefix, length = rng.choice(
        [
            ("4", 16),
            ("51", 16),
            ("55", 16),
            ("2221", 16),
            ("34", 15),
            ("37", 15),
            ("6011", 16),
            ("3530", 16),
            ("36", 14),
        ]
    )
    body = prefix + text(rng, DIGITS, length - len(prefix) - 1)
    digits = next(body + digit for digit in DIGITS if has_luhn_digit(body + digit))
    gap = rng.choice(["", "", " ", "-", " "])
    if len(digits) == 16:
        return gap.join(digits[start : start + 4] for start in range(0, 16, 4))
    return gap.join([digits[:4], digits[4:10], digits[10:]])


def _iban(rng: random.Random) -> str:
    country, length = rng.choice(sorted(LENGTHS.items()))
    body = text(rng, DIGITS, length - 4)
    check = next(f"{number:02}" for number in range(2, 99) if has_iban_digits(f"{country}{number:02}{body}"))
    characters = country + check + body
    grouped = " ".join(characters[start : start + 4] for start in range(0, length, 4))
    return rng.choice([characters, grouped, characters.lower(), grouped.replace(" ", "-")])


def _email(rng: random.Random) -> str:
    name = rng.choice(["jane.doe", "j_smith+list", "o'neil", "info", "x1234", "Maria-Luisa", "müller", "a"])
    host = rng.choice(["example.com", "mail.uni-bonn.de", "163.com", "corp.example.co.jp", "startup.io", "gov.museum"])
    return f"{name}@{host}"


def _ip(rng: random.Random) -> str:
    if rng.random() < 0.6:
        return ".".join(str(rng.randint(1, 254)) for _ in range(4)).replace("127.", "128.", 1)
    groups = [f"{rng.randint(0x100, 0xFFFF):x}" for _ in range(8)]
    groups[0] = rng.choice(["2001", "2a02", "fe80", "fd00"])
    return rng.choice([":".join(groups), f"{groups[0]}:{groups[1]}::{groups[7]}", ":".join(groups).upper()])


def _ssn(rng: random.Random) -> str:
    area = rng.choice([number for number in range(1, 900) if number != 666])
    return f"{area:03}-{rng.randint(1, 99):02}-{rng.randint(1, 9999):04}"


_COUNTRY_CODES = (
    "1",
    "7",
    "20",
    "27",
    "31",
    "33",
    "34",
    "39",
    "44",
    "46",
    "48",
    "49",
    "55",
    "61",
    "81",
    "91",
    "351",
    "420",
)


def _phone(rng: random.Random) -> str:
    code, gap = rng.choice(_COUNTRY_CODES), rng.choice([" ", "-", " ", "."])
    rest = [
        text(rng, "23456789", 1) + text(rng, DIGITS, length - 1)
        for length in rng.choice([(3, 3, 4), (2, 4, 4), (2, 7)])
    ]
    return rng.choice([f"+{code}{gap}", f"00{code}{gap}", f"+{code} (0)"]) + gap.join(rest)


def _named_phone(rng: random.Random) -> str:
    return text(rng, "0" + DIGITS, 1) + text(rng, "23456789", 3) + rng.choice([" ", "-", "/"]) + text(rng, DIGITS, 6)


POSITIVE: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "card": (
        _card,
        ("Bill {} for it.", "PAN={}", "(Visa {}, 09/27)", '{{"number": "{}"}}', "| {} | yes |", "paid with {}"),
    ),
    "iban": (_iban, ("Transfer to {} by Friday.", "IBAN: {}", "Konto {}, BIC ABCDEFGH", '"iban":"{}"', "| {} |")),
    "email": (_email, ("Write to {}.", "<{}>", "author = {}", "mailto:{}", "({})", "{}; others")),
    "ip": (_ip, ("Client {} connected", "from [{}] to", "host={} up", "`{}`", "{} - - GET /", "address {}, port 80")),
    "ssn": (_ssn, ("Her number is {}.", "SSN {}", "ssn={}", "| {} |", "({})")),
    "phone": (_phone, ("Ask {} about it.", "Tel. {}", "({})", "phone: {}", "| {} |", "Dial {} now")),
    "phone beside a word": (_named_phone, ("Telefon: {}", "Call us at {}.", "Fax {}", "my mobile is {}", "Tel: {}")),
}
"""By kind: how a value is made, and sentences around it."""


def _moment(rng: random.Random) -> str:
    day = f"{rng.randint(1900, 2030)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    return f"{day} {rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"


def _doi(rng: random.Random) -> str:
    return f"10.{text(rng, DIGITS, 4)}/s{text(rng, DIGITS, 5)}-0{text(rng, DIGITS, 2)}-{text(rng, DIGITS, 4)}-3"


NEGATIVE: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "order number": (
        lambda rng: text(rng, DIGITS, rng.choice([9, 12, 16])),
        ("Order {} shipped.", "order no. {}", "Invoice #{}"),
    ),
    "tracking number": (lambda rng: text(rng, DIGITS, 18), ("tracking number {}", "Parcel {} is late")),
    "version": (
        lambda rng: f"{rng.randint(0, 20)}.{rng.randint(0, 99)}.{rng.randint(0, 99)}.{rng.randint(0, 99)}",
        ("version {}", "v{}", "Upgrade to {}-rc1", "release {} is out", "pip install x=={}"),
    ),
    "hash": (
        lambda rng: text(rng, "0123456789abcdef", rng.choice([32, 40, 64])),
        ("commit {}", "md5 {}", "sha256:{}", "{}  file.tar.gz"),
    ),
    "coordinates": (
        lambda rng: f"{rng.uniform(-90, 90):.6f}, {rng.uniform(-180, 180):.6f}",
        ("at {}", "({})", "lat/lon {}"),
    ),
    "isbn": (
        lambda rng: f"978-{rng.randint(0, 9)}-{text(rng, DIGITS, 3)}-{text(rng, DIGITS, 5)}-{rng.randint(0, 9)}",
        ("ISBN {}", "See {} for it"),
    ),
    "date": (_moment, ("on {}", "{}Z", "called at {}")),
    "uuid": (
        lambda rng: "-".join(text(rng, "0123456789abcdef", length) for length in (8, 4, 4, 4, 12)),
        ("id {}", "{}", "key={}"),
    ),
    "mac": (lambda rng: ":".join(text(rng, "0123456789abcdef", 2) for _ in range(6)), ("MAC {}", "ether {}")),
    "decimal": (lambda rng: f"{rng.random():.16f}", ("x = {}", "{} of it", "p={}")),
    "amount": (
        lambda rng: f"{rng.randint(1, 999)},{text(rng, DIGITS, 3)},{text(rng, DIGITS, 3)}.{text(rng, DIGITS, 2)}",
        ("$ {}", "EUR {}", "{} people"),
    ),
    "epoch": (lambda rng: f"16{text(rng, DIGITS, 11)}", ("ts={}", '"time": {}', "at {} ms")),
    "section": (
        lambda rng: f"{rng.randint(1, 9)}.{rng.randint(1, 20)}.{rng.randint(1, 20)}.{rng.randint(1, 9)}",
        ("section {}", "\n{} Terms of it", "see § {}"),
    ),
    "doi": (_doi, ("doi:{}", "https://doi.org/{}")),
    "pages": (
        lambda rng: f"{rng.randint(100, 500)}-{rng.randint(500, 999)}, {rng.randint(1900, 2020)}",
        ("pp. {}", "vol. 12, {}"),
    ),
    "package": (
        lambda rng: f"left-pad@{rng.randint(0, 9)}.{rng.randint(0, 9)}.{rng.randint(0, 9)}",
        ("npm i {}", "{} is old"),
    ),
    "remote": (lambda rng: f"git@host{rng.randint(1, 9)}.example.com:team/repo.git", ("clone {}", "origin {}")),
    "code": (lambda rng: f"a{rng.randint(1, 9)}::b{rng.randint(1, 9)}[{rng.randint(1, 9)}::2]", ("std::{}", "x = {}")),
    "placeholder": (
        lambda rng: rng.choice(
            ["YOUR_API_KEY", "<token>", "${API_TOKEN}", "xxxxxxxxxxxxxxxxxxxx", "changeme", "os.environ['TOKEN']"]
        ),
        ("api_key = {}", "Authorization: Bearer {}", "password: {}", "https://user:{}@host/x"),
    ),
}
"""By kind: figures and words that hold nothing private, in the places where it would stand."""


def positives(kind: str, count: int, seed: int) -> list[tuple[str, int, int]]:
    """`count` texts with one value of a kind, and where it stands."""
    rng = random.Random(f"{kind} {seed}")
    make, frames = POSITIVE[kind]
    made = []
    for _ in range(count):
        frame, value = rng.choice(frames), make(rng)
        written = frame.format(value)
        made.append((written, written.index(value), written.index(value) + len(value)))
    return made


def negatives(kind: str, count: int, seed: int) -> list[str]:
    """`count` texts without private data."""
    rng = random.Random(f"{kind} {seed}")
    make, frames = NEGATIVE[kind]
    return [rng.choice(frames).format(make(rng)) for _ in range(count)]
