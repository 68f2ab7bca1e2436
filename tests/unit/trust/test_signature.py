"""Signatures of documents."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from sluice.contracts.errors import Conflict, InvalidInput
from sluice.contracts.trust import Signature
from sluice.trust.settings import TrustSettings
from sluice.trust.signature import make_key, problem_with, sign

URL = "https://example.org/a"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "release.pem"


def test_a_signature_is_valid_for_its_content_and_address_alone(key: Path) -> None:
    keys = {"release": make_key(key)}
    signature, public = sign(key, "release", b"text", URL)
    assert public == keys["release"]
    assert problem_with(signature, b"text", URL, keys) is None
    for content, source in ((b"text!", URL), (b"text", "https://evil.example/"), (b"text", None)):
        problem, remedy = problem_with(signature, content, source, keys) or ("", "")
        assert "did not sign" in problem
        assert "sluice sign" in remedy


def test_a_signature_of_an_unknown_key_or_of_no_form_is_none(key: Path) -> None:
    keys = {"release": make_key(key)}
    signature, _ = sign(key, "release", b"text", None)
    assert "is not known here" in (problem_with(signature, b"text", None, {}) or ("",))[0]
    for value in ("", "no base64!", "AAAA", signature.value[:-8]):
        assert problem_with(Signature(key_id="release", value=value), b"text", None, keys)


def test_a_private_key_is_for_its_owner_alone_and_never_replaced(key: Path) -> None:
    make_key(key)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    with pytest.raises(Conflict, match="never replaced"):
        make_key(key)


def test_a_file_without_a_key_is_told_with_the_remedy(key: Path) -> None:
    key.write_text("nothing")
    with pytest.raises(InvalidInput, match="--new-key"):
        sign(key, "release", b"text", None)
    with pytest.raises(InvalidInput, match="cannot be read"):
        sign(key.with_name("none"), "release", b"text", None)


def test_a_setting_that_is_no_public_key_is_refused(key: Path) -> None:
    assert TrustSettings(keys={"release": make_key(key)}).keys
    for wrong in ("short", "AAAA", "!"):
        with pytest.raises(ValueError, match="release"):
            TrustSettings(keys={"release": wrong})


def test_a_key_of_openssl_is_taken(key: Path) -> None:
    try:
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(key)], check=True, timeout=20)
    except FileNotFoundError:
        pytest.skip("no openssl here")
    signature, public = sign(key, "release", b"text", URL)
    assert problem_with(signature, b"text", URL, {"release": public}) is None
