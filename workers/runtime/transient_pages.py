"""Raw pages whose site asks that no copy be kept: on disk for as long as one hop needs them, and no longer.

The life of such a page:

1. the crawl keeps its body in a folder of its own, named for the run and the crawl's event: nobody else's page is in
   it, however equal, so nobody else's is lost with it;
2. the chunk worker reads it from there, as often as the event is delivered;
3. once that event is settled, in the ledger, no delivery of it can come any more; then, and not before, the
   reconciler's next look removes the folder.

A page whose reading ended as a dead letter stays while the letter is parked, as replaying it takes the body. What a
crash leaves behind belongs to no open event, and goes by the same rule.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path

from sluice.ledger.ledger import Ledger
from sluice.workers.runtime.blob_store import BlobStore

_BETWEEN = "."
"""Between the ids of run and event: neither has one."""


class TransientPages:
    """The folders under `root`, one for each crawl of such a page."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def of_crawl(self, run_id: str, crawl_id: str) -> BlobStore:
        """Where the body of the page lies that the event `crawl_id` of the run has brought."""
        return BlobStore(self._root / f"{run_id}{_BETWEEN}{crawl_id}")

    def remove_read(self, ledger: Ledger) -> int:
        """Remove the bodies that nobody is going to read any more; how many crawls they were of.

        Raises:
            Unavailable: the ledger does not answer.
        """
        by_run: defaultdict[str, dict[str, Path]] = defaultdict(dict)
        for folder in self._root.iterdir() if self._root.is_dir() else ():
            run_id, _, crawl_id = folder.name.partition(_BETWEEN)
            by_run[run_id][crawl_id] = folder
        removed = 0
        for run_id, folders in by_run.items():
            for crawl_id in folders.keys() - ledger.unread_crawls(run_id):
                shutil.rmtree(folders[crawl_id], ignore_errors=True)  # another process may be at it
                removed += 1
        return removed
