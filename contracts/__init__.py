"""The types that everything else speaks: events, documents, results, outcomes, errors.

Start with `contracts.event`: the envelope, `encode` and `decode`. The bodies stand by subject in
`contracts.gate`, `contracts.ingest`, `contracts.index` and `contracts.learning.events`; what is
ingested in `contracts.document`;
what a query gets in `contracts.retrieval`; what the HTTP interface takes and gives in
`contracts.api`, `contracts.memory.api` and `contracts.graph.api`; how a handler ends in
`contracts.outcome`; what can go wrong in `contracts.errors`.

Importing this package registers every body, so `decode` knows them all.
"""

from sluice.contracts import gate, index, ingest
from sluice.contracts.event import Body, Event, decode, encode
from sluice.contracts.learning import events

__all__ = ["Body", "Event", "decode", "encode", "events", "gate", "index", "ingest"]
