"""The sender of a request, and what its key allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from sluice.contracts.errors import Forbidden
from sluice.contracts.operations.dead_letters import DeadLetterFilter

Narrowable = TypeVar("Narrowable", bound=DeadLetterFilter)


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request."""

    owner: str
    role: str
    corpora: frozenset[str] | None
    """The corpora that the key may touch; None for all."""

    def may_touch(self, corpus: str) -> None:
        """Raise `Forbidden` unless the key lists the corpus."""
        if not self.may_see(corpus):
            raise Forbidden(f"this key may not touch corpus {corpus!r}")

    def may_see(self, corpus: str | None) -> bool:
        """Return whether the caller may see what is of that corpus; None (of no corpus) needs a key for all."""
        return self.corpora is None or corpus in self.corpora

    def may_operate(self) -> None:
        """Raise `Forbidden` unless the key's role is operator."""
        if self.role != "operator":
            raise Forbidden("this needs a key with the role operator")

    def may_operate_instance(self) -> None:
        """Raise `Forbidden` unless the key's role is operator and the key covers every corpus."""
        self.may_operate()
        if self.corpora is not None:
            raise Forbidden("this concerns every corpus, and the key is limited to some: use an operator's key of all")

    def narrowed(self, wanted: Narrowable) -> Narrowable:
        """Limit the filter to the caller's corpora. Raises `Forbidden` if the filter names another."""
        for corpus in wanted.corpora or ():
            self.may_touch(corpus)
        return wanted.within(self.corpora)


OWN_MACHINE = Caller("local", "operator", None)
"""A request from this machine that needs no key."""
