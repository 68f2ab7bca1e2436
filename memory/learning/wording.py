"""Words learnings that are made by rule, and excludes files and texts that teach nothing.

One sentence or two, understandable alone, with the files' names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePosixPath

from sluice.contracts.memory.learning import MAX_LEARNING_CHARACTERS
from sluice.contracts.memory.model import ErrorEntry, FileAction, IterationRecord
from sluice.text.pattern_file import PatternFile

_FILE = PatternFile(Path(__file__).with_name("excluded.toml"))
excluded = _FILE.words
"""A list of `excluded.toml`."""
_BLANKS = re.compile(r"\s+")
_SENTENCE = re.compile(r"(.+?[.!?])(?=\s+[A-Z\"'`(\[]|\s*$)", re.DOTALL)
_PATH = re.compile(r"[\w@.+-]*(?:/[\w@.+-]+)+|\b[\w-]+\.(?:lock|log|pyc|map|json|ya?ml|toml|env)\b|\.env\b")
_DECIDED = re.compile(
    r"\A\s*(?:so |therefore,? |thus,? )?(?:i(?:'ll| will|'m going to| am going to| (?:chose|decided|opted|want|need) to)|we(?:'ll| will| (?:chose|decided|opted) to)|let(?:'s| us| me)|going to)\s+",
    re.IGNORECASE,
)
_MOST_FILES = 4


def one_line(text: str, most: int) -> str:
    """`text` on one line, cut at a word's end where it is longer than `most` characters."""
    text = _BLANKS.sub(" ", text).strip()
    if len(text) <= most:
        return text
    head = text[: most - 1]
    blank = head.rfind(" ", most * 2 // 3)
    return head[: blank if blank > 0 else None].rstrip(" ,;:") + "…"


def first_sentence(text: str, most: int) -> str:
    """The first sentence of a text, on one line."""
    text = _BLANKS.sub(" ", text).strip()
    found = _SENTENCE.match(text)
    return one_line(found[1] if found else text, most)


def as_decision(description: str) -> str:
    """A decision of the first person as an observation: "I'll use Decimal" becomes "Decided to use Decimal"."""
    return _DECIDED.sub("Decided to ", description, count=1)


def the_error(error: ErrorEntry, most: int) -> str:
    """An error as the subject of a sentence: what, and in which file."""
    tool = f"{error.tool}: " if error.tool and not error.message.lower().startswith(error.tool.lower()) else ""
    place = f" in {error.file_path}" if error.file_path and error.file_path not in error.message else ""
    message = one_line(error.message, most).rstrip(".")
    return f'{tool}"{message}"{place}'


def changed_files(records: Sequence[IterationRecord]) -> tuple[str, ...]:
    """Files that these iterations changed and that something may be learned of, in order."""
    paths = (one.path for record in records for one in record.files_touched if one.action is not FileAction.READ)
    return tuple(dict.fromkeys(path for path in paths if not should_exclude_from_auto_accumulation(path)))


def list_files(paths: Sequence[str]) -> str:
    """Some of the paths, and how many more there are."""
    shown = ", ".join(paths[:_MOST_FILES])
    return shown + (f" and {len(paths) - _MOST_FILES} more files" if len(paths) > _MOST_FILES else "")


def is_about_excluded_files(text: str) -> bool:
    """Whether all files that a text names are such that nothing is learned of them by rule."""
    paths = _PATH.findall(text)
    return bool(paths) and all(should_exclude_from_auto_accumulation(path) for path in paths)


def fit(text: str) -> str:
    """`text` as long as a learning may be."""
    return one_line(text, MAX_LEARNING_CHARACTERS)


@cache
def _endings() -> re.Pattern[str]:
    return re.compile(f"(?:{'|'.join(excluded('endings'))})$")


_ENVIRONMENT = re.compile(r"\.env(?:\.(?!example$|sample$|template$|dist$|defaults$)[\w.-]+)?$")


def should_exclude_from_auto_accumulation(path: str) -> bool:
    """Whether nothing is to be learned by rule from a file: lock files, dependencies, outputs, caches, logs, secrets.

    `path` is relative to the project, or absolute. What a person or an agent says of such a file is still a learning.
    """
    parts = [part for part in path.replace("\\", "/").lower().split("/") if part not in ("", ".")]
    if not parts:
        return True
    *folders, name = parts
    if any(folder in excluded("folders") or folder.endswith(tuple(excluded("folder_endings"))) for folder in folders):
        return True
    if name in excluded("names") or name in (".git", "node_modules", "__pycache__"):
        return True
    return bool(_endings().search(name)) or bool(_ENVIRONMENT.fullmatch(str(PurePosixPath(name))))
