"""Reads one repository through the git program: its commit, its tracked files, and their content.

Only plumbing commands that run nothing of the repository: no checkout, hooks, filters, pager or file-system monitor, no
configuration of the user or the machine, no network. They read the commit, not the working tree, so the commit's
hash stands for every word that is indexed.

A remote repository is fetched over HTTPS through the egress proxy into a local bare one. Only the newest
commit of one branch or tag is fetched, and of a later one only its changes. Nothing is checked out, so hooks,
filters and submodules of the repository have no effect. The proxy judges every address that git requests, and its
account of this fetch limits the bytes; a timeout ends git. Plain HTTP is for hosts that the operator has listed for
git in `egress.allow`: there the operator answers for the network.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import signal
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from sluice.contracts.errors import InvalidInput, NotFound, TimedOut, Unavailable
from sluice.text.batches import in_batches

TIMEOUT_SECONDS = 120.0
"""Time limit of one command on a local repository: listing the files of Linux takes a few seconds."""
BATCH_BYTES = 32_000_000
"""Contents read at a time."""
MAX_FILES = 200_000
"""Most files of one commit: more than the largest repositories that are read as a corpus."""
MAX_LIST_BYTES = 300 * MAX_FILES
"""Longest list of files: an entry has some 120 bytes."""
_BLOCK_BYTES = 512
"""The unit of `ulimit -f` (POSIX)."""
_SYMLINK, _SUBMODULE = "120000", "160000"


@dataclass(frozen=True, slots=True)
class Commit:
    """The requested commit, and the requested branch, if it was one."""

    sha: str
    branch: str | None


@dataclass(frozen=True, slots=True)
class TrackedFile:
    """A file of a commit: its path in the repository, the id and size of its content."""

    path: str
    blob: str
    size_bytes: int


class GitRepository:
    """A local repository: a checkout, a worktree or a bare one."""

    def __init__(self, path: Path) -> None:
        """Raise `InvalidInput` if there is no repository, or git may not read it."""
        self._path = path
        self.root = Path(self._text("rev-parse", "--absolute-git-dir"))

    def commit(self, ref: str | None = None) -> Commit:
        """Return the commit of a branch, tag or hash, or the checked-out one. Raises NotFound if there is none."""
        try:
            sha = self._text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref or 'HEAD'}^{{commit}}")
        except InvalidInput as error:
            raise NotFound(f"{self._path} has no commit {ref or 'HEAD'!r}") from error
        return Commit(sha, self._branch(ref))

    def files(self, commit: Commit, on_skip: Callable[[Path, str], None]) -> list[TrackedFile]:
        """Return the files of a commit in path order, without symbolic links and submodules.

        `on_skip` gets each path that is not UTF-8, its other bytes escaped. Raises InvalidInput if there are more than
        `MAX_FILES` entries, or `MAX_LIST_BYTES` of them: a tree of some kilobytes can list billions of files.
        """
        asked = ["-C", str(self._path), "ls-tree", "-r", "-z", "-l", "--full-tree", commit.sha]
        with tempfile.TemporaryFile() as listing:
            run_git(asked, timeout_seconds=TIMEOUT_SECONDS, max_file_bytes=MAX_LIST_BYTES, output=listing)
            listing.seek(0)
            listed = listing.read().split(b"\0")
        if len(listed) > MAX_FILES:
            raise InvalidInput("git", f"{len(listed)} files", f"a repository of at most {MAX_FILES}")
        return [file for entry in listed if entry and (file := _file(entry, on_skip)) is not None]

    def contents(self, files: Sequence[TrackedFile]) -> Iterator[tuple[TrackedFile, bytes]]:
        """Yield each file with its content, some 32 MB in memory at a time."""
        for batch in in_batches(files, lambda file: file.size_bytes, most_items=math.inf, most_size=BATCH_BYTES):
            asked = "".join(f"{file.blob}\n" for file in batch).encode()
            yield from zip(batch, _split(self._run("cat-file", "--batch", asked=asked), batch), strict=True)

    def _branch(self, ref: str | None) -> str | None:
        with contextlib.suppress(InvalidInput):
            if ref is None:
                return self._text("symbolic-ref", "--quiet", "--short", "HEAD")
            self._run("show-ref", "--verify", "--quiet", f"refs/heads/{ref}")
            return ref
        return None

    def _text(self, *arguments: str) -> str:
        return self._run(*arguments).decode("utf-8", "replace").strip()

    def _run(self, *arguments: str, asked: bytes = b"") -> bytes:
        return run_git(["-C", str(self._path), *arguments], asked=asked, timeout_seconds=TIMEOUT_SECONDS)


def run_git(
    arguments: Sequence[str],
    *,
    timeout_seconds: float,
    asked: bytes = b"",
    protocols: str = "none",
    settings: Mapping[str, str] | None = None,
    max_file_bytes: int | None = None,
    output: BinaryIO | None = None,
) -> bytes:
    """Run one git command and return its output. `settings` go by its environment, which no process list shows.

    `protocols` are allowed for network access, none by default; `max_file_bytes` is the largest file it may write, that
    of its `output` included, which is returned where no file is given.

    Raises:
        InvalidInput: git refuses; the error quotes it, without any secret of `settings`. Or its file grows too large.
        TimedOut: it took longer, and was ended with all its child processes. Unavailable: there is no git here.
    """
    process = _start(arguments, _environment(protocols, settings or {}), max_file_bytes, output)
    try:
        told, complaint = process.communicate(asked, timeout_seconds)
    except subprocess.TimeoutExpired as error:
        _end(process)
        raise TimedOut(f"git {_command(arguments)} took longer than {timeout_seconds:g} s") from error
    except BaseException:
        _end(process)
        raise
    if process.returncode == -signal.SIGXFSZ:
        problem = f"git {_command(arguments)} writes more than {max_file_bytes:,} bytes"
        raise InvalidInput("git", problem, "a smaller repository")
    if process.returncode:
        raise InvalidInput("git", _complaint(complaint, arguments), "see what git says of it")
    return told or b""


def _start(
    arguments: Sequence[str], environment: Mapping[str, str], max_file_bytes: int | None, output: BinaryIO | None
) -> subprocess.Popen[bytes]:
    command = ["git", "--no-pager", *arguments]
    if max_file_bytes is not None:
        command = ["/bin/sh", "-c", 'ulimit -f "$0" && exec "$@"', str(max_file_bytes // _BLOCK_BYTES), *command]
    try:
        return subprocess.Popen(  # noqa: S603 - a fixed program; what is given are its arguments, never a command line
            command,
            stdin=subprocess.PIPE,
            stdout=output or subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise Unavailable("there is no git program on this machine: install git") from error


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _environment(protocols: str, settings: Mapping[str, str]) -> dict[str, str]:
    fixed = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    given = {**fixed["settings"], **settings, **{f"protocol.{one}.allow": "always" for one in protocols.split(":")}}
    numbered = {f"GIT_CONFIG_KEY_{number}": name for number, name in enumerate(given)}
    numbered |= {f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(given.values())}
    path, count = os.environ.get("PATH", os.defpath), str(len(given))
    return {
        "PATH": path,
        **fixed["environment"],
        "GIT_CONFIG_COUNT": count,
        "GIT_ALLOW_PROTOCOL": protocols,
        **numbered,
    }


def _complaint(raw: bytes, arguments: Sequence[str]) -> str:
    text = re.sub(r"//[^/@\s]+@", "//", raw.decode("utf-8", "replace"))
    lines = ["".join(filter(str.isprintable, line)) for line in text.splitlines() if line.strip()]
    return f"git {_command(arguments)}: {' '.join(lines[:3])[:400] or 'failed without a word'}"


def _command(arguments: Sequence[str]) -> str:
    return arguments[2] if arguments[0] == "-C" else arguments[0]


def _file(entry: bytes, on_skip: Callable[[Path, str], None]) -> TrackedFile | None:
    facts, _, raw_path = entry.partition(b"\t")
    mode, kind, blob, size = facts.decode("ascii").split()
    if kind != "blob" or mode in (_SYMLINK, _SUBMODULE):
        return None
    try:
        return TrackedFile(raw_path.decode("utf-8"), blob, int(size))
    except UnicodeDecodeError:
        on_skip(Path(raw_path.decode("utf-8", "backslashreplace")), "its path is not UTF-8")
        return None


def _split(raw: bytes, batch: Sequence[TrackedFile]) -> Iterator[bytes]:
    """Split the output of `cat-file --batch` into contents, each preceded by a line with its size."""
    at = 0
    for file in batch:
        head_end = raw.index(b"\n", at)
        size = int(raw[at:head_end].split()[2])
        if size != file.size_bytes:
            raise InvalidInput("git", f"{file.path} has {size} bytes, not {file.size_bytes}", "run git fsck")
        yield raw[head_end + 1 : head_end + 1 + size]
        at = head_end + 1 + size + 1


FETCH_TIMEOUT_SECONDS = 300.0
"""Time limit of the whole fetch: a repository of 200 MB over a slow line."""
LIST_TIMEOUT_SECONDS = 60.0
"""Time limit of listing branches and tags."""
MAX_BYTES = 300_000_000
"""Most bytes of one fetch in both directions; a shallow clone of CPython is some 40 MB, of Chromium far more."""
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
    """Return whether `text` is an address and not a path."""
    return "://" in text or re.match(r"^[\w.-]+@[\w.-]+:", text) is not None


def parse_remote(address: str) -> Remote:
    """Parse the address of a repository.

    Raises InvalidInput if it is not HTTP(S), names no repository or has credentials, which the error does not repeat.
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
    """Return the folder of a remote's bare repository below `folder`."""
    return folder / f"{hashlib.sha256(remote.url.encode()).hexdigest()[:24]}.git"


def fetch(remote: Remote, ref: str | None, folder: Path, proxy_url: str) -> tuple[GitRepository, Commit]:
    """Fetch the newest commit of a branch or tag; without one, of the remote's main branch.

    `folder` holds the bare repository, created if missing; `proxy_url` carries a secret. Raises NotFound if the remote
    has no such branch or tag, InvalidInput if git refuses (for instance, no repository is there), and TimedOut.
    """
    settings = {"http.proxy": proxy_url, "http.followRedirects": "initial"}
    protocols = "https" if remote.is_secure else "http:https"
    if not (folder / "HEAD").exists():
        run_git(["init", "--quiet", "--bare", str(folder)], timeout_seconds=FETCH_TIMEOUT_SECONDS)
    asked = ["ls-remote", "--symref", "--", remote.url, *([ref, f"refs/heads/{ref}"] if ref else ["HEAD"])]
    listed = run_git(asked, timeout_seconds=LIST_TIMEOUT_SECONDS, protocols=protocols, settings=settings)
    full_name, sha, branch = _choose(listed.decode("utf-8", "replace"), ref, remote)
    repository = GitRepository(folder)
    if not _has(repository, sha):
        run_git(
            ["-C", str(folder), "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--force",
             "--no-write-fetch-head", "--", remote.url, f"{full_name}:{_HEAD}"],
            timeout_seconds=FETCH_TIMEOUT_SECONDS,
            protocols=protocols,
            settings=settings,
            max_file_bytes=MAX_BYTES,
        )  # fmt: skip
        sha = repository.commit(_HEAD).sha
    return repository, Commit(sha, branch)


def _choose(told: str, ref: str | None, remote: Remote) -> tuple[str, str, str | None]:
    """Return the full name to fetch, its hash, and the branch's short name if it is a branch."""
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
    """Return whether a commit is present with all its files: an interrupted fetch writes no commit."""
    try:
        return repository.commit(_HEAD).sha == sha
    except NotFound:
        return False
