"""Learnings: added, compared with those before, distilled from iterations, reviewed and pruned."""

from sluice.contracts.memory.learning import FeatureLearning, LearningSource
from sluice.memory.learning.deduplication import Conflict, DeduplicationResult, Duplicate, Unique, check_deduplication
from sluice.memory.learning.wording import should_exclude_from_auto_accumulation
from sluice.memory.sanitise import sanitize_learning_text

__all__ = [
    "Conflict",
    "DeduplicationResult",
    "Duplicate",
    "FeatureLearning",
    "LearningSource",
    "Unique",
    "check_deduplication",
    "sanitize_learning_text",
    "should_exclude_from_auto_accumulation",
]
