"""`sluice sign`: keys, and signatures of documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.main import app
from sluice.contracts.trust import Signature
from sluice.trust.signature import problem_with


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_text("A lease is renewed.")
    return tmp_path


def sluice(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["sign", *arguments], prog_name="sluice")


def test_a_new_key_prints_the_line_for_the_settings_and_signs(folder: Path) -> None:
    made = sluice("--new-key", "--key", "release.pem", "--json")
    public = json.loads(made.stdout)["public_key"]
    assert sluice("notes.md", "--key", "release.pem").exit_code == 0
    signature = Signature.model_validate_json((folder / "notes.md.sig").read_bytes())
    assert signature.key_id == "release"
    assert problem_with(signature, b"A lease is renewed.", None, {"release": public}) is None
    told = sluice("--new-key", "--key", "other.pem")
    assert 'keys = { "other" = "' in told.stdout


def test_a_signature_for_a_submission_covers_the_address_as_it_is_kept(folder: Path) -> None:
    public = json.loads(sluice("--new-key", "--key", "k.pem", "--json").stdout)["public_key"]
    signed = sluice("notes.md", "--key", "k.pem", "--source", "HTTPS://Example.org:443/a#top", "--json")
    signature = Signature.model_validate(json.loads(signed.stdout)["signature"])
    assert problem_with(signature, b"A lease is renewed.", "https://example.org/a", {"k": public}) is None


@pytest.mark.parametrize(
    "arguments", [(), ("none.md", "--key", "k.pem"), ("notes.md", "--key", "none.pem"), ("--new-key", "--key", "k.pem")]
)
def test_what_cannot_be_done_is_told_with_its_exit_code(folder: Path, arguments: tuple[str, ...]) -> None:
    assert sluice("--new-key", "--key", "k.pem").exit_code == 0
    assert sluice(*arguments).exit_code in (2, 5)
