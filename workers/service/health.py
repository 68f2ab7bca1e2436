"""Is this instance well? Broker, ledger, workers, embedder, snapshots: each asked, each with what was measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import version

from contracts.api import Health, HealthCheck
from contracts.errors import SluiceError
from workers.broker.transport import BROKER_ERRORS
from workers.context import Parts


def check_health(parts: Parts) -> Health:
    """The state of every part. Asks each once, within its own time limit; raises nothing."""
    checks = {
        "broker": _asked(lambda: _broker(parts)),
        "ledger": _asked(lambda: _ledger(parts)),
        "workers": _asked(lambda: _workers(parts)),
        "embedder": _asked(lambda: _embedder(parts)),
        "snapshot": _asked(lambda: _snapshots(parts)),
    }
    return Health(ok=all(check.ok for check in checks.values()), version=version("sluice"), checks=checks)


def _asked(ask: Callable[[], HealthCheck]) -> HealthCheck:
    try:
        return ask()
    except (SluiceError, *BROKER_ERRORS) as error:
        return HealthCheck(ok=False, detail=str(error) or repr(error))


def _broker(parts: Parts) -> HealthCheck:
    return HealthCheck(ok=True, facts={"round_trip_ms": round(parts.transport.ping(), 3)})


def _ledger(parts: Parts) -> HealthCheck:
    started = time.perf_counter()
    depths = parts.ledger.queue_stats()
    facts = {
        "answer_ms": round((time.perf_counter() - started) * 1e3, 3),
        "ready": {stage: depth.ready for stage, depth in depths.items() if depth.ready},
        "in_flight": {stage: depth.claimed for stage, depth in depths.items() if depth.claimed},
    }
    return HealthCheck(ok=True, facts=facts)


def _workers(parts: Parts) -> HealthCheck:
    present = parts.transport.present_workers()
    missing = [stage for stage, count in present.items() if count == 0]
    return HealthCheck(
        ok=not missing, detail=f"no worker for {', '.join(missing)}" if missing else "", facts=dict(present)
    )


def _embedder(parts: Parts) -> HealthCheck:
    embedder = parts.embedder
    return HealthCheck(ok=True, facts={"model": embedder.fingerprint, "dimension": embedder.dimension})


def _snapshots(parts: Parts) -> HealthCheck:
    corpora, damaged = {}, []
    for corpus in parts.corpora():
        reader = parts.reader(corpus)
        reader.reload()
        corpora[corpus] = {"generation": reader.generation, "chunks": reader.chunk_count}
        if reader.fallback_reason:
            damaged.append(f"{corpus}: {reader.fallback_reason}")
    return HealthCheck(ok=not damaged, detail="; ".join(damaged), facts={"corpora": corpora})
