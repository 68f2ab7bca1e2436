"""Each type of the data model is there by its name, in the module that has it, and the model's three examples hold."""

from __future__ import annotations

import importlib

import pytest

from sluice.memory.journal import JournalEntry
from sluice.memory.learning import Duplicate, FeatureLearning, check_deduplication
from sluice.memory.model import ErrorEntry, ErrorType, IterationOutcome, IterationRecord

NAMES = {
    "sluice.memory.model": "IterationRecord IterationOutcome ErrorEntry ErrorType DecisionEntry FileTouched FileAction ModelTier",
    "sluice.memory.extraction": "ExtractionResult RawIterationOutput ToolUseEvent ResultEvent",
    "sluice.memory.journal": "JournalEntry journal_path read_journal",
    "sluice.memory.qdrant_schema": "MemoryPayload CollectionConfig RecordType collection_name expected_collections",
    "sluice.memory.learning": "FeatureLearning LearningSource DeduplicationResult check_deduplication sanitize_learning_text "
    "should_exclude_from_auto_accumulation",
    "sluice.memory.config": "RagConfig RagStatus",
}


@pytest.mark.parametrize("module", NAMES)
def test_a_module_has_the_names_of_the_data_model(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []


def test_a_record_has_an_embedding_text_an_id_and_a_line_of_the_journal() -> None:
    record = IterationRecord(
        iteration_number=7,
        task_id=42,
        task_title="Build login form",
        feature="authentication",
        discipline="frontend",
        timestamp="2026-02-07T14:30:00Z",
        outcome=IterationOutcome.FAILURE,
        summary="Auth middleware returns wrong shape",
        errors=(
            ErrorEntry(
                message="TypeError: Cannot read property 'user' of undefined",
                error_type=ErrorType.RUNTIME,
                file_path="src/middleware/auth.ts",
                line=42,
            ),
        ),
        tokens_used=45_000,
        duration_ms=120_000,
    )
    assert "Build login form" in record.embedding_text()
    assert record.point_id("/home/user/myproject") == record.point_id("/home/user/myproject")
    assert record.point_id("/home/user/myproject") != record.point_id("/home/user/other")
    entry = JournalEntry.new(record)
    assert JournalEntry.from_json_line(entry.to_json_line()) == entry


def test_the_same_learning_in_other_words_is_a_duplicate() -> None:
    known = [FeatureLearning.auto_extracted("Auth middleware expects User object not userId", 5, None)]
    match check_deduplication("Auth middleware expects User object instead of userId", known):
        case Duplicate(existing_index=index):
            assert index == 0
        case other:
            pytest.fail(f"{other}")
