"""`sluice backup` and `restore`: one file with all that the instance cannot make again, and the way back from it."""

from __future__ import annotations

import getpass
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from sluice.cli.command import Shown, alone, on_disk
from sluice.cli.output import configured, print_table, say
from sluice.contracts.errors import InvalidInput
from sluice.workers.backup.archive import Keys, Seal
from sluice.workers.backup.restore import Restored
from sluice.workers.backup.restore import restore as bring_back
from sluice.workers.backup.restore import verify as try_restoring
from sluice.workers.backup.take import record_taken, take
from sluice.workers.backup.target import Target, name_of
from sluice.workers.context import Context


@on_disk
def backup(
    context: Context,
    target: str | None = None,
    with_index: bool = False,
    recipient: str | None = None,
    passphrase_file: Path | None = None,
    verify: bool = False,
) -> Shown:
    """Back up the instance to one file while it works: ledger, journals, memories, blobs."""
    settings = context.settings
    told = target or settings.backup.to
    if told is None:
        raise InvalidInput("file", "is missing", "name a file, a folder or a URL, or set backup.to")
    seal = _seal(recipient or (None if passphrase_file else settings.backup.recipient), passphrase_file)
    named = name_of(settings.instance, datetime.now(UTC), is_closed=seal.is_closed)
    place = Target(told if target else f"{told.rstrip('/')}/", settings.object_store, named)
    taken = take(context, place, seal, with_index=with_index)
    tried = try_restoring(settings, place, seal.keys()) if verify else None
    is_verified = tried is not None and tried.is_equal
    record_taken(context, taken, getpass.getuser(), is_verified=is_verified)
    facts = {"place": taken.place, "bytes": taken.size_bytes, "seconds": taken.seconds, "verified": is_verified}
    facts |= {"ledger_at": taken.manifest.ledger_at, "skipped": taken.manifest.skipped}

    def draw() -> None:
        say(
            f"{taken.place}: {taken.size_bytes / 1e6:.1f} MB in {taken.seconds:.1f} s, as of {taken.manifest.ledger_at}"
        )
        for one in taken.manifest.skipped:
            say(f"  without {one}")
        if tried is not None:
            _compare(tried)

    return Shown(facts | _compared(tried), draw, exit_code=int(verify and not is_verified))


@alone
def restore(file: str, into: Path | None = None, same: bool = False, identity: Path | None = None) -> Shown:
    """Restore a backup into an empty data directory, and compare it with what the backup says."""
    settings = configured()
    folder = (into or settings.data_dir).absolute()
    keys = Keys.read(identity) if identity else Keys()
    place = Target(file, settings.object_store)
    done = bring_back(settings, place, keys, getpass.getuser(), keeps_instance=same, into=folder)
    facts = {"into": folder, "instance": done.instance, "ledger_at": done.manifest.ledger_at}
    facts |= {"freed_claims": done.freed_claims, "forgotten_again": done.forgotten}

    def draw() -> None:
        _compare(done)
        say(f"{folder} is as the instance was at {done.manifest.ledger_at}, with the broker prefix {done.instance}")
        say(f"{done.freed_claims} claims were freed, {done.forgotten} documents forgotten since were forgotten again")
        if settings.instance != done.instance and "instance" in settings.model_fields_set:
            say(f"your settings say instance = {settings.instance}: take that away while the old instance still runs")

    return Shown(facts | _compared(done), draw, exit_code=int(not done.is_equal))


def _seal(recipient: str | None, passphrase_file: Path | None) -> Seal:
    if recipient and passphrase_file:
        raise InvalidInput("passphrase_file", "contradicts --recipient", "give one of them")
    if passphrase_file is None:
        return Seal((recipient,) if recipient else ())
    passphrase = Keys.read(passphrase_file).passphrase
    if not passphrase:
        raise InvalidInput("passphrase_file", f"{passphrase_file} holds no passphrase", "write one into its one line")
    return Seal(passphrase=passphrase)


def _compared(done: Restored | None) -> dict[str, object]:
    return {} if done is None else {"equal": done.is_equal, "compared": [asdict(one) for one in done.compared]}


def _compare(done: Restored) -> None:
    """Print what was compared; the rows of the ledger's tables as a sum, but for those that differ."""
    rows = [one for one in done.compared if one.what.startswith("rows of ") and one.is_equal]
    total = str(sum(int(one.backup) for one in rows))
    others = [one for one in done.compared if one not in rows]
    shown = [(one.what, one.backup, one.restored, "" if one.is_equal else "DIFFERS") for one in others]
    shown = [(f"rows of {len(rows)} tables", total, total, ""), *shown]
    print_table("restored", ("what", "backup", "restored", ""), shown)
