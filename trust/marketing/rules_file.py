"""The rules of the marketing checks, read from their data files once."""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from sluice.contracts.base import Value

RULES_DIR = Path(__file__).parent / "rules"


def _compile(pattern: object) -> object:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE) if isinstance(pattern, str) else pattern


Pattern = Annotated[re.Pattern[str], BeforeValidator(_compile)]


class _Rules(Value):
    model_config = ConfigDict(arbitrary_types_allowed=True)


class Sign(_Rules):
    """Words to look for. `clear` says of a mark whether regulators take it as clear."""

    rule: str
    pattern: Pattern
    source: str
    clear: bool = True
    needs: str = ""


class Disclosures(_Rules):
    """Marks of a disclosure, and signs that one is due."""

    sources: dict[str, str]
    marks: tuple[Sign, ...]
    signs: tuple[Sign, ...]


class Single(_Rules):
    """One pattern."""

    pattern: Pattern


class Claims(_Rules):
    """Claims, what shows that a sentence reports or denies one, and what refers to a study."""

    sources: dict[str, str]
    claims: tuple[Sign, ...]
    reported: Single
    denied: Single
    evidence: Single


class ChannelRules(_Rules):
    """Registered domains of each kind of source, and patterns of addresses."""

    news: frozenset[str]
    press_release: frozenset[str]
    social: frozenset[str]
    forum: frozenset[str]
    addresses: Annotated[dict[str, Pattern], Field(default_factory=dict)]


@lru_cache(maxsize=1)
def disclosure_rules() -> Disclosures:
    """The rules of disclosures."""
    return Disclosures.model_validate(_read("disclosures"))


@lru_cache(maxsize=1)
def claim_rules() -> Claims:
    """The rules of claims."""
    return Claims.model_validate(_read("claims"))


@lru_cache(maxsize=1)
def channel_rules() -> ChannelRules:
    """The rules of channels."""
    return ChannelRules.model_validate(_read("channels"))


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((RULES_DIR / f"{name}.toml").read_text("utf-8"))
