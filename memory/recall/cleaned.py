"""What recall found, sanitised once more before it is handed out: rules improve, and people may edit a journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sluice.contracts.memory.api import Recollection
from sluice.contracts.memory.learning import FeatureLearning
from sluice.contracts.memory.model import IterationRecord
from sluice.memory.ports import Sanitise
from sluice.memory.sanitise import sanitise_record


def cleaned(found: Iterable[Recollection], sanitise: Sanitise) -> Iterator[Recollection]:
    """Each of them without what would command its reader; a learning of which nothing may be told is left out."""
    for one in found:
        if one.record is not None:
            yield _with_record(one, sanitise_record(one.record, sanitise))
        elif one.learning is not None and (learning := _cleaned_learning(one.learning, sanitise)):
            yield (
                one
                if learning is one.learning
                else one.model_copy(update={"learning": learning, "text": learning.text})
            )


def _with_record(one: Recollection, record: IterationRecord) -> Recollection:
    return one if record is one.record else one.model_copy(update={"record": record, "text": record.embedding_text()})


def _cleaned_learning(learning: FeatureLearning, sanitise: Sanitise) -> FeatureLearning | None:
    text, reason = sanitise(learning.text), sanitise(learning.reason)
    if text.blocked or not text.text:
        return None
    if text.text == learning.text and reason.text == learning.reason and not reason.blocked:
        return learning
    told = "" if reason.blocked else reason.text
    return learning.model_copy(update={"text": text.text, "reason": told or "withheld"})
