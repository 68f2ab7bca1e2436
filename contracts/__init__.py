"""The types that all packages share: events, documents, results, outcomes, errors.

Start with `contracts.event`: the envelope, `encode` and `decode`. Event bodies are defined by subject in
`contracts.gate`, `contracts.ingest`, `contracts.index`, `contracts.learning` and
`contracts.operations.transfer`; ingested documents in `contracts.document`; query results in
`contracts.retrieval`, the language of conditions in `contracts.filters`; requests and responses of the HTTP interface
in `contracts.api`, `contracts.memory.api` and `contracts.graph.api`; the ways a handler ends in `contracts.event`; the
errors in `contracts.errors`.

Importing this package registers every body, so `decode` knows them all.
"""

from sluice.contracts import gate, index, ingest
from sluice.contracts.event import Body, Event, decode, encode
from sluice.contracts.learning import events, passages
from sluice.contracts.operations import transfer

__all__ = ["Body", "Event", "decode", "encode", "events", "gate", "index", "ingest", "passages", "transfer"]
