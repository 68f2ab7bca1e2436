"""The nightly backup: taken and verified by a process of its own, once for all reconcilers of an instance.

It is due when the last one was verified before the last `backup.at`; one that failed is tried again after an hour. The
log of what was forgotten follows to the backups' place within seconds, also between two backups.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO

import structlog

from sluice.contracts.errors import Conflict
from sluice.otel import metrics
from sluice.workers.backup import VERIFIED
from sluice.workers.backup.forgotten import LOG, copy_beside, size_of
from sluice.workers.context import Context

log = structlog.get_logger(__name__)

BACKUP_LOOK_SECONDS = 10.0
LEASE = "nightly_backup"
_LEASE_SECONDS = 60.0
_AGAIN_SECONDS = 3_600.0
_NICENESS = 10


class NightlyBackup:
    """Looks whether the backup is due, and keeps its process. Only made where `backup.to` is set."""

    def __init__(self, context: Context) -> None:
        self._context, self._settings = context, context.settings.backup
        self._holder = f"{os.getpid()}:{secrets.token_hex(4)}"
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] = BytesIO()
        self._rests_until = 0.0
        self._copied_bytes = -1

    def look(self) -> None:
        """Begin the backup where it is due, and see to the one that runs."""
        try:
            self._context.index_owner.require_here("a backup")
        except Conflict:  # the journals are there
            return
        if not self._context.ledger.lease(LEASE, self._holder, _LEASE_SECONDS):
            return
        verified_at = self._verified_at()
        metrics.BACKUP_VERIFIED_AT.set(verified_at)
        self._copy_log()
        if self._process is not None:
            if (code := self._process.poll()) is None:
                return
            self._said.seek(0)
            told = self._said.read().decode(errors="replace").strip()[-1_000:] if code else ""
            (log.error if code else log.info)("nightly_backup_ended", exit_code=code, said=told)
            self._process, self._rests_until = None, time.time() + _AGAIN_SECONDS if code else 0.0
        if verified_at < self._due_at().timestamp() and time.time() >= self._rests_until:
            self._begin()

    def stop(self) -> None:
        """End a backup that runs: the next one begins anew."""
        if self._process is not None:
            self._process.terminate()

    def _begin(self) -> None:
        command, self._said = [sys.executable, "-m", "sluice.cli", "backup", "--verify"], TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said)  # noqa: S603
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICENESS)
        log.info("nightly_backup_began", to=self._settings.to)

    def _due_at(self) -> datetime:
        """Return the last moment at which a backup was due."""
        hour, minute = map(int, self._settings.at.split(":"))
        now = datetime.now(UTC)
        today = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        return today if today <= now else today - timedelta(days=1)

    def _verified_at(self) -> float:
        """Return when the last verified backup was recorded; 0 without one."""
        return self._context.ledger.last_backup_at(VERIFIED)

    def _copy_log(self) -> None:
        """Put the log of what was forgotten beside the backups when it has grown."""
        size = size_of(self._context)
        if size in (0, self._copied_bytes):
            return
        from sluice.workers.backup.archive import Seal  # here: few processes have a log to copy
        from sluice.workers.backup.target import Target

        told, recipient = str(self._settings.to), self._settings.recipient
        target = Target(f"{told.rstrip('/')}/", self._context.settings.object_store, LOG)
        copy_beside(self._context, target, Seal((recipient,) if recipient else ()))
        self._copied_bytes = size
