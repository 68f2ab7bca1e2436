"""Settings of the index and of queries. Each default carries its unit and its reason."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from contracts.base import Value


class IndexSettings(Value):
    """Journal, segments and generations."""

    keep_generations: Annotated[int, Field(ge=1)] = 3
    max_segments: Annotated[int, Field(ge=1)] = 8
    """Vector segments above which the small ones are merged."""
    verify_on_open: bool = True


class QuerySettings(Value):
    """Fusion, trust and budget defaults."""

    candidates: Annotated[int, Field(ge=1, le=1_000)] = 50
    """Candidates that each arm hands to fusion."""
    fusion: Literal["rrf", "weighted"] = "rrf"
    rrf_k: Annotated[int, Field(ge=1)] = 60
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Weight of the lexical arm in the weighted mix; the dense arm has `beta`."""
    beta: Annotated[float, Field(ge=0, le=1)] = 0.5
    trusted_domains: tuple[str, ...] = ()
    trusted_authors: tuple[str, ...] = ()
    reload_timeout_seconds: Annotated[float, Field(gt=0)] = 10.0
