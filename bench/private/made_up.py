"""Made-up tokens of known forms, made when they are asked for: no literal token stands in the repository."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

LETTERS = string.ascii_letters
ALNUM = string.ascii_letters + string.digits
CAPITAL = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
WORD = ALNUM + "_-"
BASE64 = ALNUM + "+/"


def text(rng: random.Random, alphabet: str, length: int) -> str:
    """`length` characters of an alphabet."""
    return "".join(rng.choice(alphabet) for _ in range(length))


def _jwt(rng: random.Random) -> str:
    return f"eyJ{text(rng, ALNUM, 33)}.eyJ{text(rng, ALNUM, 60)}.{text(rng, WORD, 43)}"


def _private_key(rng: random.Random) -> str:
    kind = rng.choice(["RSA ", "EC ", "OPENSSH ", ""])
    lines = "\n".join(text(rng, BASE64, 64) for _ in range(8))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


def _uuid(rng: random.Random) -> str:
    return "-".join(text(rng, HEX, length) for length in (8, 4, 4, 4, 12))


SECRETS: dict[str, Callable[[random.Random], str]] = {
    "aws access key": lambda rng: "AKIA" + text(rng, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
    "github token": lambda rng: f"gh{rng.choice('pousr')}_" + text(rng, ALNUM, 36),
    "github fine-grained token": lambda rng: "github_pat_" + text(rng, ALNUM, 22) + "_" + text(rng, ALNUM, 59),
    "gitlab token": lambda rng: "glpat-" + text(rng, WORD, 20),
    "slack bot token": lambda rng: (
        f"xoxb-{text(rng, '123456789', 12)}-{text(rng, '123456789', 12)}-{text(rng, ALNUM, 24)}"
    ),
    "slack webhook": lambda rng: (
        f"https://hooks.slack.com/services/T{text(rng, CAPITAL, 8)}/B{text(rng, CAPITAL, 8)}/{text(rng, ALNUM, 24)}"
    ),
    "stripe key": lambda rng: f"sk_{rng.choice(['live', 'test'])}_" + text(rng, ALNUM, 24),
    "google api key": lambda rng: "AIza" + text(rng, WORD, 35),
    "google oauth secret": lambda rng: "GOCSPX-" + text(rng, WORD, 28),
    "openai key": lambda rng: "sk-proj-" + text(rng, ALNUM, 74) + "T3BlbkFJ" + text(rng, ALNUM, 74),
    "anthropic key": lambda rng: "sk-ant-api03-" + text(rng, WORD, 93) + "AA",
    "hugging face token": lambda rng: "hf_" + text(rng, LETTERS, 34),
    "npm token": lambda rng: "npm_" + text(rng, ALNUM, 36),
    "pypi token": lambda rng: "pypi-AgEIcHlwaS5vcmc" + text(rng, WORD, 120),
    "sendgrid key": lambda rng: f"SG.{text(rng, ALNUM, 22)}.{text(rng, ALNUM, 43)}",
    "twilio key": lambda rng: "SK" + text(rng, HEX, 32),
    "mailgun key": lambda rng: "key-" + text(rng, HEX, 32),
    "mailchimp key": lambda rng: text(rng, HEX, 32) + "-us" + text(rng, "123456789", 2),
    "telegram bot token": lambda rng: f"{text(rng, '123456789', 10)}:AA{text(rng, WORD, 32)}{text(rng, ALNUM, 1)}",
    "discord bot token": lambda rng: f"M{text(rng, ALNUM, 25)}.{text(rng, ALNUM, 6)}.{text(rng, ALNUM, 38)}",
    "digitalocean token": lambda rng: "dop_v1_" + text(rng, HEX, 64),
    "shopify token": lambda rng: "shpat_" + text(rng, HEX, 32),
    "databricks token": lambda rng: "dapi" + text(rng, HEX, 32),
    "azure storage key": lambda rng: f"AccountKey={text(rng, BASE64, 86)}==",
    "aws secret key": lambda rng: f"aws_secret_access_key = {text(rng, BASE64, 40)}",
    "heroku key": lambda rng: f"HEROKU_API_KEY={_uuid(rng)}",
    "docker token": lambda rng: "dckr_pat_" + text(rng, WORD, 27),
    "json web token": _jwt,
    "private key": _private_key,
    "password in a URL": lambda rng: f"postgres://app:{text(rng, ALNUM, 14)}@db.example.org:5432/main",
    "bearer header": lambda rng: f"Authorization: Bearer {text(rng, ALNUM + '-_.', 39)}7",
    "vault token": lambda rng: "hvs." + text(rng, WORD, 95),
    "age key": lambda rng: "AGE-SECRET-KEY-1" + text(rng, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    "grafana token": lambda rng: f"glsa_{text(rng, ALNUM, 32)}_{text(rng, HEX, 8)}",
    "postman key": lambda rng: f"PMAK-{text(rng, HEX, 24)}-{text(rng, HEX, 34)}",
}
"""Makers of tokens by kind. The random part alone is made up; what precedes it is the kind's published form."""
