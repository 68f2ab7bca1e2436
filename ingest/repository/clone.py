"""A remote repository, fetched over HTTPS through the egress proxy into a bare one of this machine.

Only the newest commit of one branch or tag comes, and of a later one only what it changed. Nothing is checked out, so
neither hooks nor filters nor submodules of the repository have a say. The proxy judges every address that git asks for,
and its account of this fetch holds the bytes; time is held by ending git. Plain HTTP is for hosts that the operator has
named for git in `egress.allow`: there the operator answers for the network.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sluice.contracts.errors import InvalidInput, NotFound
from sluice.ingest.repository.git import Commit, GitRepository, run_git

TIMEOUT_SECONDS = 300.0
"""Of the whole fetch: a repository of 200 MB over a slow line."""
LIST_TIMEOUT_SECONDS = 60.0
"""Of asking which branches and tags there are."""
MAX_BYTES = 300_000_000
"""Of one fetch in both directions; a shallow clone of CPython is some 40 MB, of Chromium far more."""
_HEAD = "refs/sluice/head"
_REMOTE_HEAD = re.compile(r"^ref: refs/heads/(\S+)\tHEAD$", re.MULTILINE)
_REF = re.compile(r"^([0-9a-f]{40,64})\t(\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository's address without credentials, and its name: host and path."""

    url: str
    name: str
    is_secure: bool
    host: str
    port: int


def is_address(text: str) -> bool:
    """Whether it is an address and not a path."""
    return "://" in text or re.match(r"^[\w.-]+@[\w.-]+:", text) is not None


def parse_remote(address: str) -> Remote:
    """Read the address of a repository.

    Raises:
        InvalidInput: it is not HTTP(S), names no repository, or carries credentials. The address is not repeated then.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("https", "http"):
        remedy = "an https:// address, or clone it yourself and give the folder"
        raise InvalidInput("git", f"{parts.scheme or 'ssh'} is not used to fetch repositories", remedy)
    if parts.username is not None or parts.password is not None:
        remedy = "an address without them: clone what is private yourself, and give the folder"
        raise InvalidInput("git", "the address carries credentials", remedy)
    path = parts.path.strip("/").removesuffix(".git").strip("/")
    if not parts.hostname or not path or parts.query or parts.fragment:
        raise InvalidInput("git", "the address names no repository", "for instance https://github.com/psf/requests")
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    host = parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"
    return Remote(f"{parts.scheme}://{host}{parts.path.rstrip('/')}", f"{host}/{path}", secure, parts.hostname, port)


def clone_folder(folder: Path, remote: Remote) -> Path:
    """Where the bare repository of a remote is kept below `folder`."""
    return folder / f"{hashlib.sha256(remote.url.encode()).hexdigest()[:24]}.git"


def fetch(remote: Remote, ref: str | None, folder: Path, proxy_url: str) -> tuple[GitRepository, Commit]:
    """Fetch the newest commit of a branch or tag, of the remote's main branch without one.

    `folder` is the bare repository's, made where it is not there; `proxy_url` carries a secret.

    Raises:
        NotFound: the remote has no such branch or tag.
        InvalidInput: git refuses, for instance since the remote has no repository there.
        TimedOut: it took too long.
    """
    settings = {"http.proxy": proxy_url, "http.followRedirects": "initial"}
    protocols = "https" if remote.is_secure else "http:https"
    if not (folder / "HEAD").exists():
        run_git(["init", "--quiet", "--bare", str(folder)], timeout_seconds=TIMEOUT_SECONDS)
    asked = ["ls-remote", "--symref", "--", remote.url, *([ref, f"refs/heads/{ref}"] if ref else ["HEAD"])]
    listed = run_git(asked, timeout_seconds=LIST_TIMEOUT_SECONDS, protocols=protocols, settings=settings)
    full_name, sha, branch = _choose(listed.decode("utf-8", "replace"), ref, remote)
    repository = GitRepository(folder)
    if not _has(repository, sha):
        run_git(
            ["-C", str(folder), "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--force",
             "--no-write-fetch-head", "--", remote.url, f"{full_name}:{_HEAD}"],
            timeout_seconds=TIMEOUT_SECONDS,
            protocols=protocols,
            settings=settings,
            max_file_bytes=MAX_BYTES,
        )  # fmt: skip
        sha = repository.commit(_HEAD).sha
    return repository, Commit(sha, branch)


def _choose(told: str, ref: str | None, remote: Remote) -> tuple[str, str, str | None]:
    """The full name that is fetched, its hash, and the branch's short name where it is a branch."""
    refs = {name: sha for sha, name in _REF.findall(told)}
    if ref is None:
        head = _REMOTE_HEAD.search(told)
        if "HEAD" not in refs:
            raise NotFound(f"{remote.name} has no commit yet")
        return "HEAD", refs["HEAD"], head[1] if head else None
    for name in (f"refs/heads/{ref}", f"refs/tags/{ref}", ref):
        if name in refs:
            return name, refs[name], ref if name.startswith("refs/heads/") else None
    raise NotFound(f"{remote.name} has no branch or tag {ref!r}")


def _has(repository: GitRepository, sha: str) -> bool:
    """Whether a commit is there with all its files: a fetch that was broken off wrote no commit."""
    try:
        return repository.commit(_HEAD).sha == sha
    except NotFound:
        return False
