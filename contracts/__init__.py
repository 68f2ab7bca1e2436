"""The types that everything else speaks: events, documents, results, outcomes, errors.

Start with `contracts.event`: the envelope, `encode` and `decode`. The bodies stand by subject in
`contracts.gate`, `contracts.ingest`, `contracts.index`, `contracts.judged_responses` and
`contracts.learning_events`; what is ingested in `contracts.document`; what a query gets in
`contracts.retrieval`; what the HTTP interface takes and gives in `contracts.api`; how a handler
ends in `contracts.outcome`; what can go wrong in `contracts.errors`.

Importing this package registers every body, so `decode` knows them all.
"""

from contracts import gate, index, ingest, judged_responses, learning_events
from contracts.event import Body, Event, decode, encode

__all__ = ["Body", "Event", "decode", "encode", "gate", "index", "ingest", "judged_responses", "learning_events"]
