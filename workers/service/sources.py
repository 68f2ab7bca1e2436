"""Documents from repositories (the tracked files of one commit, and their dependencies) and from tools of MCP servers.

Each file is a document whose metadata name its repository and the hash of its content. By these the next reading finds
unchanged and removed files, however the one before it ended: the index itself is the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sluice.contracts.document import Document, Provenance, document_id_for, sha256_text
from sluice.contracts.errors import InvalidInput, PolicyRefused, SluiceError
from sluice.contracts.profiles import Dependency
from sluice.graph.tools.ask import Listing, ToolServer, list_tools, tools_text, tools_title
from sluice.ingest.egress.crawl_account import EgressLimits
from sluice.ingest.egress.proxy import EgressProxy
from sluice.ingest.extract.media_types import PLAIN
from sluice.ingest.repository import git
from sluice.ingest.repository.facts import (
    DEPENDENCIES,
    FACTS_KEY,
    effective,
    is_lock_file,
    is_manifest,
    parse_manifest,
    write_dependencies,
)
from sluice.text.commands import find_commands
from sluice.trust.source_trust import submission_id_for
from sluice.workers.context import Context
from sluice.workers.runtime.observers import log_refusal
from sluice.workers.service.contents import MAX_FILE_BYTES, read_content
from sluice.workers.service.read_files import SKIPPED_FOLDERS, OnSkip

REPOSITORY_KEY, BLOB_KEY = "repository", "git_blob"
FACTS_FILE = "DEPENDENCIES"
"""Last part of the path of the document that lists a repository's dependencies; no file of it has that name."""
_GIT_LIMITS = EgressLimits(
    max_response_bytes=git.MAX_BYTES,
    max_bytes_per_crawl=git.MAX_BYTES,
    max_connection_seconds=git.TIMEOUT_SECONDS,
    max_hosts_per_crawl=5,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Documents that a commit has and the corpus lacks, and ids of those that only the corpus has (`removed`).

    `removed` is complete once `documents` were all read, as a file may have become one that cannot be read.
    """

    repository: str
    commit: git.Commit
    documents: Iterator[Document]
    unchanged: int
    removed: list[str]


@contextmanager
def open_repository(
    context: Context, source: str, ref: str | None
) -> Iterator[tuple[git.GitRepository, git.Commit, str, str]]:
    """Yield a repository with the requested commit, its name in paths, and its location.

    A folder is read in place; an address is fetched through an egress proxy of its own, if the policy allows it.

    Raises:
        PolicyRefused: the policy lets nothing out, or not by plain HTTP.
        InvalidInput, NotFound, TimedOut, Unavailable: as `ingest.repository`.
    """
    if not git.is_address(source):
        path = Path(source).resolve()
        if not path.is_dir():
            raise InvalidInput("git", f"no folder {source}", "a folder with a repository, or an https:// address")
        repository = git.GitRepository(path)
        yield repository, repository.commit(ref), path.name, str(path)
        return
    remote = git.parse_remote(source)
    named = f"git={remote.host}:{remote.port}"
    if not remote.is_secure and named not in context.settings.egress.allow:
        remedy = f'an https:// address, or "{named}" in egress.allow for a server of your own network'
        raise PolicyRefused("git", "plain HTTP can be read and changed on the way", remedy)
    folder = git.clone_folder(context.settings.data_dir / "repositories", remote)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        EgressProxy(context.settings.egress, on_refusal=log_refusal, limits=_GIT_LIMITS) as proxy,
        proxy.open("git", max_bytes=git.MAX_BYTES) as account,
    ):
        try:
            repository, commit = git.fetch(remote, ref, folder, account.url)
        except InvalidInput as error:
            refused = "; ".join(f"{one.rule}: {one.detail}" for one, _ in account.report().refusals)
            if not refused:
                raise
            raise PolicyRefused("egress", refused, "an entry git=host:port in egress.allow") from error
    yield repository, commit, remote.name, remote.url


def read_repository(
    context: Context,
    corpus: str,
    opened: tuple[git.GitRepository, git.Commit, str, str],
    *,
    now: datetime,
    on_skip: OnSkip,
) -> Reading:
    """Find what to ingest and remove so that the corpus has the commit's files, and no others of the repository.

    Raises `InvalidInput` if the corpus has another repository of that name.
    """
    repository, commit, name, place = opened
    known = _known(context, corpus, name, place)
    listed = repository.files(commit, on_skip)
    files = [file for file in listed if not _skipped(file, on_skip)]
    facts = _facts(repository, listed, name, on_skip)
    wanted = {_id(name, file.path): file for file in files}
    changed = [file for document_id, file in wanted.items() if known.get(document_id) != file.blob]
    provenance = Provenance(source="file", fetched_at=now, repository=place, commit=commit.sha, branch=commit.branch)
    text = write_dependencies(name, facts)
    facts_document = _document(
        name,
        FACTS_FILE,
        sha256_text(text),
        provenance,
        metadata={FACTS_KEY: DEPENDENCIES},
        media_type=PLAIN,
        text=text,
        title=f"Dependencies of {name}",
    )
    has_new_facts = bool(facts) and known.get(facts_document.id) != facts_document.metadata[BLOB_KEY]
    removed = sorted(known.keys() - {*wanted, *([facts_document.id] if facts else [])})

    def documents() -> Iterator[Document]:
        for file, body in repository.contents(changed):
            content, reason = read_content(body, f"{name}/{file.path}")
            if content is not None:
                yield _document(name, file.path, file.blob, provenance, **content)
                continue
            on_skip(Path(file.path), reason or "nothing to read")
            if _id(name, file.path) in known:
                removed.append(_id(name, file.path))
        if has_new_facts:
            yield facts_document

    return Reading(name, commit, documents(), len(wanted) - len(changed), removed)


def _known(context: Context, corpus: str, name: str, place: str) -> dict[str, str]:
    """Return the content hashes of the repository's documents in the corpus, by document id."""
    if not context.readers.exists(corpus):
        return {}
    known: dict[str, str] = {}
    for facts in context.readers.reader(corpus).all_facts():
        if facts.metadata.get(REPOSITORY_KEY) != name:
            continue
        if facts.provenance.repository != place:
            problem = f"corpus {corpus} has a repository {name} from {facts.provenance.repository}"
            raise InvalidInput("git", problem, "another corpus for this one")
        known[facts.document_id] = str(facts.metadata.get(BLOB_KEY, ""))
    return known


def _skipped(file: git.TrackedFile, on_skip: OnSkip) -> bool:
    reason = None
    if SKIPPED_FOLDERS & set(file.path.split("/")):
        reason = "not the author's own"
    elif file.size_bytes > MAX_FILE_BYTES:
        reason = f"larger than {MAX_FILE_BYTES:,} bytes"
    elif not file.size_bytes:
        reason = "empty"
    elif is_lock_file(file.path):
        reason = "a lock file, whose packages are told together"
    if reason:
        on_skip(Path(file.path), reason)
    return reason is not None


def _facts(repository: git.GitRepository, files: list[git.TrackedFile], name: str, on_skip: OnSkip) -> list[Dependency]:
    """Return the dependencies that the manifests and lock files of a commit name."""
    manifests = [file for file in files if is_manifest(file.path) and file.size_bytes <= MAX_FILE_BYTES]
    found: list[Dependency] = []
    for file, body in repository.contents(manifests):
        try:
            found += parse_manifest(f"{name}/{file.path}", body.decode("utf-8", "replace"))
        except Exception as error:  # noqa: BLE001 - one manifest does not cost the repository
            on_skip(Path(file.path), f"its dependencies cannot be read: {error!r}")
    return effective(found)


def _document(
    name: str, path: str, blob: str, provenance: Provenance, metadata: Mapping[str, str] | None = None, **content: Any
) -> Document:
    return Document(
        id=_id(name, path),
        file_path=f"{name}/{path}",
        metadata={**(metadata or {}), REPOSITORY_KEY: name, BLOB_KEY: blob},
        provenance=provenance,
        **content,
    )


def _id(name: str, path: str) -> str:
    return document_id_for(f"{name}/{path}")


OnFailure = Callable[[ToolServer, SluiceError], None]


def tool_documents(
    context: Context, servers: Iterable[ToolServer], *, timeout_seconds: float, now: datetime, on_failure: OnFailure
) -> Iterator[Document]:
    """Yield one document for each server that answers, at the path `mcp/<server>.json`; `on_failure` gets the others.

    A server's words are not trusted: the documents count as submitted, and the guard reads them as such. Addresses are
    reached by the rules of egress, for the purpose `mcp`.
    """
    for server in servers:
        try:
            proxy_url = context.egress.url_for("mcp") if server.url is not None else None
            listing = list_tools(server, proxy_url=proxy_url, timeout_seconds=timeout_seconds)
        except SluiceError as error:
            on_failure(server, error)
            continue
        for path, part in parted(server.path, listing):
            yield Document(
                id=submission_id_for(None, path),
                file_path=path,
                title=tools_title(listing),
                media_type="application/json",
                text=tools_text(part),
                metadata={"mcp_server": listing.name, "mcp_tools": len(part.tools)},
                provenance=Provenance(source="submission", fetched_at=now),
            )


def parted(path: str, listing: Listing) -> Iterator[tuple[str, Listing]]:
    """Yield the list without the tools that command their reader, and each of these by itself, with their paths.

    So a poisoned description takes none of its neighbours into quarantine.
    """
    alone = {
        number: part
        for number, tool in enumerate(listing.tools)
        if find_commands(tools_text(part := replace(listing, tools=(tool,))))
    }
    yield path, replace(listing, tools=tuple(one for place, one in enumerate(listing.tools) if place not in alone))
    for number, part in alone.items():
        yield f"{path.removesuffix('.json')}/{number + 1}.json", part
