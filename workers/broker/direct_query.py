"""Direct queries over the broker: asked by one process, answered by the query pool.

A read has no ledger row: whoever asks waits for it, and asks again if it does not come. The reply is
one byte of status and the JSON of a `Retrieval` or of a `Problem`.
"""

from __future__ import annotations

from contracts import errors
from contracts.api import Problem
from contracts.errors import SluiceError, TimedOut
from contracts.retrieval import Query
from otel import metrics
from workers.broker.transport import Transport

_GOOD, _BAD = b"+", b"-"
_BY_CODE: dict[str, type[SluiceError]] = {
    kind.code: kind
    for kind in (errors.NotFound, errors.Unavailable, errors.TimedOut, errors.Corrupted, errors.Conflict)
}


def good_reply(payload: bytes) -> bytes:
    """A reply that carries a result."""
    return _GOOD + payload


def bad_reply(error: SluiceError) -> bytes:
    """A reply that carries an error."""
    return _BAD + Problem(code=error.code, message=str(error)).model_dump_json().encode()


def ask_query_pool(transport: Transport, query: Query, traceparent: str | None, timeout_seconds: float) -> bytes:
    """The JSON of the `Retrieval` of `query`.

    Raises:
        TimedOut: no query worker replied in time.
        NotFound, Unavailable: as the query worker said.
    """
    with metrics.REPLY_SECONDS.time():
        key = transport.send_read(query, traceparent, timeout_seconds)
        reply = transport.await_reply(key, timeout_seconds)
    if reply is None:
        raise TimedOut(f"no query worker replied within {timeout_seconds:g} s; is one running?")
    if reply.startswith(_GOOD):
        return reply[1:]
    problem = Problem.model_validate_json(reply[1:])
    raise _BY_CODE.get(problem.code, SluiceError)(problem.message)
