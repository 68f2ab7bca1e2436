"""Addresses that must not be reached, in every spelling that ever got past somebody."""

from __future__ import annotations

import json
from pathlib import Path

from tests.chaos.hostile.names import PUBLIC
from tests.support.repository import DATA

URLS = DATA / "url"

OWN = (
    # IPv4, as inet_aton(3) and browsers read it
    "http://127.0.0.1:80/",
    "http://127.0.0.1:8080/admin",
    "http://127.0.0.1:6379/",
    "http://2130706433:80/",
    "http://0x7f.0.0.1/",
    "http://0x7F.1/",
    "http://017700000001/",
    "http://0177.1/",
    "http://127.000.000.001/",
    "http://127.0.0.1./",
    "http://①②⑦.⓪.⓪.①/",
    "http://127。0。0。1/",
    "http://127%2e0%2e0%2e1/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.0.1:8000/",
    "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/iam/security-credentials/",
    "http://0251.0376.0251.0376/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://0.0.0.0/",
    # IPv6, and the IPv4 that it may carry
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::a00:1]/",
    "http://[64:ff9b:1::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://[2001:0:7f00:1::]/",
    "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
    "http://[fe80::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[2606:4700:4700::5efe:7f00:1]/",
    # names that lead there
    "http://localhost/",
    "http://foo.localhost/",
    "http://localhost.localdomain/",
    "http://metadata.google.internal/",
    "http://ip-7f000001.steered.org/",
    "http://ip-0a000001.steered.org/",
    "http://ip-a9fea9fe.steered.org/",
    "http://six-00000000000000000000000000000001.steered.org/",
    "http://six-fd000ec2000000000000000000000254.steered.org/",
    "http://six-00000000000000000000ffff7f000001.steered.org/",
    "http://both-7f000001.steered.org/",
    "http://chain-7f000001.steered.org/",
    "http://mapped-7f000001.steered.org/",
    # what is taken for something else
    "http://93.184.216.34@127.0.0.1/",
    "http://127.0.0.1#@93.184.216.34/",
    "http://127.0.0.1\\@93.184.216.34/",
    "//127.0.0.1/",
    "\\\\127.0.0.1\\share",
    "http:127.0.0.1/",
    "https://127.0.0.1/",
    "https://[::1]/",
    "https://169.254.169.254/",
    "https://localhost:8443/",
    "ftp://127.0.0.1/",
    "file:///etc/passwd",
    "view-source:http://127.0.0.1/",
    "blob:http://127.0.0.1/0f0e",
    "jar:http://127.0.0.1!/",
)

CANARIES = ("http://127.0.0.1/", "http://10.0.0.1/", "http://169.254.169.254/")
"""What a control opens on purpose, to see that it is seen when it is reached."""


def literals() -> tuple[list[str], list[str]]:
    """Every spelling, each once, the most telling first; and a sentence for each list that is not here."""
    missing = []
    found = list(OWN)
    for name, read in (("ssrf_payloads.txt", _lines), ("urltestdata.json", _failures)):
        path = URLS / name
        if path.exists():
            found += read(path)
        else:
            missing.append(f"{name} is not here: its addresses were not tried")
    return list(dict.fromkeys(one for one in found if PUBLIC not in one or "@" in one)), missing


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.strip()]


def _failures(path: Path) -> list[str]:
    """What the URL standard's own tests want refused."""
    cases = [case for case in json.loads(path.read_text()) if isinstance(case, dict)]
    return [case["input"] for case in cases if case.get("failure")]
