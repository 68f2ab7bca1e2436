"""What an operator may turn of trust, guard and private data."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from contracts.base import Value


class TrustSettings(Value):
    """Whom to trust, and what to do with what is not."""

    domains: tuple[str, ...] = ()
    """Hosts (and their subdomains) whose pages are trusted. Empty: no host is judged; else all others lose."""
    authors: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Authors that are known on a domain, as its pages name them: {"example.org" = ["Ada"]}. Elsewhere they say
    nothing, as anybody can write a name."""
    submitters: tuple[str, ...] = ()
    """Ids of API keys whose submissions are trusted as files of this machine are; see `sluice keys list`."""
    confidence_floor: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Passages that answer the question with a lower probability are not cited; 0 cites whatever was found. At 0.2 one
    answer of twenty is lost, and nine of ten questions on topics that the corpus lacks are told so (decision 19)."""
