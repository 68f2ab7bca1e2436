"""The log of what was forgotten, outside the ledger: a restored backup would bring back what was forgotten since.

`forgotten.jsonl` in the data directory gets a line before each request is recorded, and a copy lies beside the backups,
encrypted like them. Machines that share an object store write an object for each line there, below `forgotten/`. A
restoration carries out what is younger than the backup's ledger before anything is served.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sluice.disk.durable import append_lines

if TYPE_CHECKING:
    from sluice.disk.object_store import ObjectStore
    from sluice.workers.backup.archive import Keys, Seal
    from sluice.workers.backup.target import Target
    from sluice.workers.context import Context

LOG, _SHARED = "forgotten.jsonl", "forgotten"
Action = Literal["forget", "delete_corpus", "keep_out", "allow"]


def note(context: Context, action: Action, **facts: Any) -> None:
    """Append one request to the log, flushed. Raises `StoreDown` if it cannot be told to the object store."""
    line = {"at": time.time(), "action": action, **facts}
    if context.object_store is None:
        append_lines(context.settings.data_dir / LOG, [line])
    else:
        name = f"{_SHARED}/{line['at']:017.6f}-{secrets.token_hex(4)}.json"
        context.object_store.create(name, json.dumps(line).encode() + b"\n")


def size_of(context: Context) -> int:
    """Return the bytes of the log: it has grown where they have."""
    path = context.settings.data_dir / LOG
    shared = context.object_store.sizes(_SHARED) if context.object_store else {}
    return sum(shared.values()) + (path.stat().st_size if path.is_file() else 0)


def read_whole(data_dir: Path, store: ObjectStore | None) -> bytes:
    """Return the log of this machine and what all machines wrote to the object store."""
    path = data_dir / LOG
    shared = store.each(store.read, sorted(store.sizes(_SHARED))) if store else []
    return b"".join([path.read_bytes() if path.is_file() else b"", *shared])


@dataclass(frozen=True, slots=True)
class Logged:
    """A line of the log."""

    at: float
    action: Action
    facts: dict[str, Any]


def read_log(contents: Iterable[bytes | None], after: float) -> list[Logged]:
    """Return the requests after a moment (seconds since the epoch) of several copies, each once, in order. A line that
    a crash has cut is passed over."""
    lines = dict.fromkeys(line for content in contents if content for line in content.splitlines() if line.strip())
    return sorted(_logged(lines, after), key=lambda one: one.at)


def _logged(lines: Iterable[bytes], after: float) -> Iterator[Logged]:
    for line in lines:
        try:
            facts = json.loads(line)
            at, action = float(facts.pop("at")), facts.pop("action")
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        if at > after:
            yield Logged(at, action, facts)


def copy_beside(context: Context, target: Target, seal: Seal) -> None:
    """Put the log beside the backups of `target`."""
    content, sealed = read_whole(context.settings.data_dir, context.object_store), BytesIO()
    if not content:
        return
    with seal.writing(sealed) as out:
        out.write(content)
    target.put_beside(_name(is_closed=seal.is_closed), sealed.getvalue())


def logs_beside(target: Target, keys: Keys) -> Iterator[bytes]:
    """Yield the copies of the log beside a backup."""
    if (plain := target.beside(_name(is_closed=False))) is not None:
        yield plain
    if (sealed := target.beside(_name(is_closed=True))) is not None:
        with keys.reading(BytesIO(sealed)) as source:
            yield source.read()


def _name(*, is_closed: bool) -> str:
    return f"{LOG}.age" if is_closed else LOG
