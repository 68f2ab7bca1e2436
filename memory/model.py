"""The values of an iteration, by the names that the rest of memory has them under; they stand in `contracts.memory`."""

from sluice.contracts.memory.model import (
    MAX_EMBEDDING_CHARACTERS,
    MAX_SUMMARY_CHARACTERS,
    DecisionEntry,
    ErrorEntry,
    ErrorType,
    FileAction,
    FileTouched,
    IterationOutcome,
    IterationRecord,
    ModelTier,
)

__all__ = [
    "MAX_EMBEDDING_CHARACTERS",
    "MAX_SUMMARY_CHARACTERS",
    "DecisionEntry",
    "ErrorEntry",
    "ErrorType",
    "FileAction",
    "FileTouched",
    "IterationOutcome",
    "IterationRecord",
    "ModelTier",
]
