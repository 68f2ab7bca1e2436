"""The inspection of ingested documents: the guard with the local model's vectors, and the search for private data.

The guard's own model reads vectors of the local MiniLM, whatever model a corpus has. Where that cannot be loaded the
rules alone inspect, and `inspected_by` says so: once the model is there, what they inspected counts as another version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import structlog

from sluice.contracts.errors import Corrupted, InvalidSetting, Unavailable

if TYPE_CHECKING:
    from sluice.contracts.document import ChunkedDocument
    from sluice.ingest.embed.port import Embedder, Vectors
    from sluice.trust.inspect import Inspector
    from sluice.workers.settings import Settings

log = structlog.get_logger(__name__)


class GuardedInspection:
    """Looks for attacks and private data in chunks; by rules alone while the local model is away. Safe for threads."""

    def __init__(self, whole: Inspector, rules_alone: Inspector, embed: Callable[[Sequence[str]], Vectors]) -> None:
        self._whole = whole
        self._rules_alone = rules_alone
        self._embed = embed
        self._is_model_missing = False

    @property
    def version(self) -> str:
        """Identifier of the rules and the model; text that another version inspected may be judged differently now."""
        return (self._rules_alone if self._is_model_missing else self._whole).version

    def inspect(self, document: ChunkedDocument) -> ChunkedDocument:
        """Return the document with `inspection` set on chunks in which something was found, and with `inspected_by`.

        Its chunks stay as many and in the same order; those that are blocked are among them.
        """
        if not self._is_model_missing:
            try:
                return self._whole.inspect(document, self._embed)
            except (InvalidSetting, Corrupted, Unavailable) as error:
                log.warning("guard_without_model", error=str(error))
                self._is_model_missing = True
        return self._rules_alone.inspect(document, self._embed)


def build_inspector(settings: Settings, embedder: Callable[[], Embedder]) -> GuardedInspection:
    """Build the inspector of this process. `embedder` returns the configured embedder; nothing is loaded yet."""
    from sluice.trust.guard.guard import ModelGuard, RuleGuard
    from sluice.trust.inspect import Inspector
    from sluice.trust.private.patterns import build_finder

    private = build_finder(settings.trust)
    whole, rules_alone = Inspector(ModelGuard(), private), Inspector(RuleGuard(), private)
    return GuardedInspection(whole, rules_alone, _local_vectors(settings, embedder))


def _local_vectors(settings: Settings, embedder: Callable[[], Embedder]) -> Callable[[Sequence[str]], Vectors]:
    """Return a function that embeds texts by the local model: a local embedder's own, so that no model loads twice."""
    from sluice.ingest.embed.minilm import FINGERPRINTS, MiniLM
    from sluice.workers.runtime.heartbeat import check_cancelled

    embed = settings.embed
    fingerprint = FINGERPRINTS[embed.precision]
    if embed.provider == "local":
        return lambda texts: embedder().embed(texts, fingerprint).vectors
    folder = embed.model_dir or settings.model_dir
    model = MiniLM(folder, embed.threads, precision=embed.precision, check_cancelled=check_cancelled)
    return lambda texts: model.embed(texts).vectors
