"""What a process put before it was killed is there, and what is referred to stays, wherever a collector is killed."""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.contracts.base import BlobRef
from sluice.contracts.ingest import DocumentsSubmitted
from sluice.disk.object_store import open_store
from sluice.index.settings import ObjectStoreSettings
from sluice.workers.runtime.shared_blobs import SharedBlobs
from tests.support.ledger_story import Story
from tests.support.moto_server import BUCKET, KEYS, moto_serving

CHILD = Path(__file__).with_name("killed_blobs.py")
KILLS = 4


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with moto_serving() as url:
        yield url


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The URL and the endpoint of a store."""
    if request.param == "file":
        return f"file://{tmp_path}/store", ""
    for name, value in KEYS:
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{secrets.token_hex(4)}", request.getfixturevalue("moto")


def machine(place: tuple[str, str]) -> SharedBlobs:
    return SharedBlobs(open_store(place[0], ObjectStoreSettings(endpoint=place[1] or None)))


def killed(what: str, place: tuple[str, str], ledger: str, lines: int) -> list[str]:
    """The whole lines of a child that was killed a moment after so many."""
    child = subprocess.Popen([sys.executable, str(CHILD), what, *place, ledger], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    said = [child.stdout.readline() for _ in range(lines)]
    time.sleep(random.uniform(0, 0.05))
    child.kill()
    said += child.stdout.read().splitlines(keepends=True)
    child.wait()
    child.stdout.close()
    return [line for line in said if line.endswith("\n")]


def test_what_was_put_before_a_kill_is_there(place: tuple[str, str]) -> None:
    refs = []
    for _ in range(KILLS):
        for line in killed("put", place, "", 5):
            sha256, size = line.split()
            refs.append(BlobRef(sha256=sha256, size_bytes=int(size)))
    blobs = machine(place)
    for ref in refs:
        assert len(blobs.get(ref)) == ref.size_bytes  # whole, by its hash
    for one in blobs.kept():
        blobs.named(one.sha256)  # what nobody was told of is whole, too


def test_what_is_referred_to_outlives_killed_collectors(place: tuple[str, str], story: Story) -> None:
    blobs = machine(place)
    bodies = [os.urandom(100) for _ in range(60)]
    refs = [blobs.put(body) for body in bodies]
    for ref in refs[::2]:
        story.begins(DocumentsSubmitted(documents=ref, document_count=1))
    for number in range(KILLS):
        killed("collect", place, story.url, number % 2)
        for ref, body in zip(refs[::2], bodies[::2], strict=True):
            assert blobs.get(ref) == body
    killed("collect", place, story.url, 2)
    assert {one.sha256 for one in blobs.kept()} == {ref.sha256 for ref in refs[::2]}
