"""The index of a corpus, for those who ask for its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.contracts.errors import InvalidInput
from sluice.workers.wiring.graph.directives import is_graphed

if TYPE_CHECKING:
    from sluice.workers.context import Context
    from sluice.workers.service.caller import Caller
    from sluice.workers.wiring.corpora import Reader


def graphed_reader(context: Context, corpus: str, caller: Caller) -> Reader:
    """What reads the index of a corpus that may have a graph.

    Raises:
        Forbidden: the corpus is not the caller's.
        InvalidInput: it is an agent's memory, which has no graph.
        NotFound: nothing was written to the corpus.
    """
    caller.may_touch(corpus)
    if not is_graphed(corpus):
        raise InvalidInput("corpus", f"{corpus} is an agent's memory, which has no graph", "name another corpus")
    return context.readers.existing(corpus)
