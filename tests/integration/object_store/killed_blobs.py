"""A process that puts bodies into a store, or collects there, until it is killed: `killed_blobs.py WHAT URL ENDPOINT LEDGER`.

It prints each reference once the put has returned, and the number of each whole cycle.
"""

from __future__ import annotations

import os
import sys

from sluice.disk.object_store import open_store
from sluice.index.settings import ObjectStoreSettings
from sluice.ledger.ledger import Ledger
from sluice.workers.runtime import blob_store
from sluice.workers.runtime.blob_store import BlobCollector
from sluice.workers.runtime.shared_blobs import SharedBlobs


def main(what: str, url: str, endpoint: str, ledger_url: str) -> None:
    blobs = SharedBlobs(open_store(url, ObjectStoreSettings(endpoint=endpoint or None)))
    if what == "put":
        while True:
            ref = blobs.put(os.urandom(20_000))
            print(ref.sha256, ref.size_bytes, flush=True)
    blob_store.GRACE_SECONDS = -10.0  # whatever is there is old
    blob_store.BLOBS_PER_TICK = 20
    blob_store.LEASE_SECONDS = blob_store.CYCLE_SECONDS = 0.0  # the one that was killed holds no lease any more
    with Ledger(ledger_url) as ledger:
        collector, number = BlobCollector(blobs, ledger), 0
        while True:
            collector.tick()
            while collector.is_collecting:
                collector.tick()
            number += 1
            print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
