"""Repositories that are fetched: through the egress proxy alone, bounded, and without anything of theirs being run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidInput, NotFound, PolicyRefused, SluiceError, TimedOut
from sluice.ingest.repository.git import parse_remote
from sluice.workers.service.sources import open_repository, read_repository
from tests.support.git_checkout import git
from tests.support.git_server import GitServer
from tests.support.in_process import Instance, MakeInstance


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The checkout from which the server's repository is made."""
    folder = tmp_path / "served" / "team" / "parcel"
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "trunk")
    (folder / "a.py").write_text("def first() -> int:\n    return 1\n")
    (folder / "b.py").write_text("def second() -> int:\n    return 2\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "tag", "v1")
    return folder


@pytest.fixture
def server(source: Path) -> Iterator[GitServer]:
    served = GitServer(source.parent.parent)
    yield served
    served.close()


def reads(instance: Instance, url: str, ref: str | None = None) -> dict[str, str | None]:
    """The path of each document that is new, with its branch."""
    with open_repository(instance.context, url, ref) as opened:
        reading = read_repository(instance.context, "docs", opened, now=datetime.now(UTC), on_skip=lambda *_: None)
        documents = list(reading.documents)
    instance.service.ingest("docs", documents, reading.removed)
    instance.works("chunk", "embed", "index", "index")
    return {document.file_path or "": document.provenance.branch for document in documents}


def test_a_repository_comes_through_the_proxy_and_again_only_what_changed(
    make_instance: MakeInstance, server: GitServer, source: Path
) -> None:
    instance = make_instance(egress={"allow": (f"git=127.0.0.1:{server.port}",)})
    name = f"127.0.0.1:{server.port}/team/parcel"
    url = server.url("team/parcel/.git")
    first = reads(instance, url)
    assert first == {f"{name}/{path}": "trunk" for path in ("a.py", "b.py")}
    (source / "a.py").write_text("def first() -> int:\n    return 10\n")
    git(source, "commit", "-qam", "second")
    asked = len(server.requests)
    second = reads(instance, url)
    assert [path.rpartition("/")[2] for path in second] == ["a.py"]
    assert len(server.requests) > asked
    asked = len(server.requests)
    with open_repository(instance.context, url, None) as opened:
        reading = read_repository(instance.context, "docs", opened, now=datetime.now(UTC), on_skip=lambda *_: None)
        assert (list(reading.documents), reading.removed, reading.unchanged) == ([], [], 2)
    assert not any("git-upload-pack" in path and "info/refs" not in path for path in server.requests[asked + 2 :])


def test_a_tag_is_read_and_what_is_not_there_is_named(make_instance: MakeInstance, server: GitServer) -> None:
    instance = make_instance(egress={"allow": (f"git=127.0.0.1:{server.port}",)})
    assert set(reads(instance, server.url("team/parcel/.git"), "v1").values()) == {None}
    with pytest.raises(NotFound, match="no branch or tag 'v9'"):
        reads(instance, server.url("team/parcel/.git"), "v9")


def test_a_host_that_may_not_be_reached_for_git_is_not_asked(make_instance: MakeInstance, server: GitServer) -> None:
    for allow in ((), (f"crawl=127.0.0.1:{server.port}",)):
        with pytest.raises(PolicyRefused):
            reads(make_instance(egress={"allow": allow}), server.url("team/parcel/.git"))
    with pytest.raises(PolicyRefused, match="address"):  # HTTPS, to an address of this machine: the proxy's own rules
        reads(make_instance(), "https://127.0.0.1/team/parcel.git")
    assert server.requests == []


def test_a_policy_that_lets_nothing_out_lets_no_fetch_begin(make_instance: MakeInstance, server: GitServer) -> None:
    instance = make_instance(egress={"policy": "deny", "allow": (f"git=127.0.0.1:{server.port}",)})
    with pytest.raises(PolicyRefused):
        reads(instance, server.url("team/parcel/.git"))
    assert server.requests == []


def test_a_fetch_that_takes_too_long_or_too_much_is_ended(
    make_instance: MakeInstance, server: GitServer, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = make_instance(egress={"allow": (f"git=127.0.0.1:{server.port}",)})
    (source / "large.bin").write_bytes(__import__("random").Random(1).randbytes(400_000))
    git(source, "add", "-A")
    git(source, "commit", "-qm", "large")
    monkeypatch.setattr("sluice.ingest.repository.git.MAX_BYTES", 100_000)
    with pytest.raises(SluiceError) as refused:
        reads(instance, server.url("team/parcel/.git"))
    assert not isinstance(refused.value, TimedOut)
    monkeypatch.setattr("sluice.ingest.repository.git.MAX_BYTES", 10_000_000)
    server.delay_seconds = 1.5
    monkeypatch.setattr("sluice.ingest.repository.git.LIST_TIMEOUT_SECONDS", 0.5)
    with pytest.raises(TimedOut):
        reads(instance, server.url("team/parcel/.git"))
    server.delay_seconds = 0.0
    monkeypatch.undo()
    assert reads(instance, server.url("team/parcel/.git"))  # what was broken off does no harm


@pytest.mark.parametrize("address", ["https://user:hunter2@github.com/a/b", "https://hunter2@github.com/a/b"])
def test_credentials_in_an_address_are_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_remote(address)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "ext::sh -c id",
        "ssh://git@github.com/a/b",
        "file:///etc",
        "https://github.com",
        "git://host/a",
        "--upload-pack=id",
    ],
)
def test_only_https_addresses_of_a_repository_are_taken(address: str) -> None:
    with pytest.raises(InvalidInput):
        parse_remote(address)
