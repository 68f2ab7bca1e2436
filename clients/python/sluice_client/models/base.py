"""The base of every answer, parts of lists, and a run's events."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, PrivateAttr

Item = TypeVar("Item")


class Model(BaseModel):
    """An answer, or a part of one. Built when it is first needed, and never changed."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True, protected_namespaces=())


class Page(Model, Generic[Item]):
    """A part of a list. Iterating over it goes on to the parts that follow: `for` with the blocking client, `async for`
    with the other. `data` is this part alone."""

    data: list[Item]
    next_cursor: str | None = None
    _ask: Callable[[str], Any] | None = PrivateAttr(None)

    def following(self, ask: Callable[[str], Any]) -> None:
        """Set how the part after a cursor is asked for."""
        self.__pydantic_private__ = {"_ask": ask}

    def __iter__(self) -> Iterator[Item]:  # type: ignore[override]
        part = self
        yield from part.data
        while part.next_cursor and part._ask:
            part = part._ask(part.next_cursor)
            yield from part.data

    async def __aiter__(self) -> AsyncIterator[Item]:
        part = self
        while True:
            for item in part.data:
                yield item
            if not part.next_cursor or not part._ask:
                return
            part = await part._ask(part.next_cursor)


class Event(Model):
    """One event of a run: an envelope around a body, whose fields depend on the kind."""

    id: str
    kind: str
    version: int
    run_id: str
    cause_id: str | None = None
    corpus: str
    occurred_at: datetime
    traceparent: str | None = None
    baggage: dict[str, str] = {}
    body: dict[str, Any]
