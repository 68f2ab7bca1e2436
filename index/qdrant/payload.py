"""Documents and chunks as points, filters as conditions, and the single point with the state of the collection.

Every other point is live from the generation `since` up to, not including, `until`. Live points have no `until`. A
search names its generation, so it sees the corpus as of that generation, regardless of later writes.

Terms are sparse vectors, by which the server ranks as BM25. A dimension is a term in a field: the first 32 bits of a
hash of both, the same on every machine. Two terms with the same dimension cannot be told apart; of a million terms one
in 4,000 shares its dimension. The document side holds the part of BM25 that needs no other document,

    tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / average length))      (Robertson and Zaragoza, 2009)

with k1 1.2 and b 0.75. The question's side holds the weight of the field, and the engine multiplies it by the inverse
document frequency: Qdrant's `idf` modifier, ln(1 + (N - n + 0.5) / (n + 0.5)), counted over a shard's chunks.
"""

from __future__ import annotations

import hashlib
import math
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from pydantic import ValidationError

from sluice.contracts.base import Moment, Sha256, Value
from sluice.contracts.document import Chunk, DocumentFacts, Scalar, parse_host
from sluice.contracts.errors import Corrupted
from sluice.contracts.filters import METADATA, Where, all_of, moment_of
from sluice.index.journal.records import Record, Upsert, document_key, make_facts
from sluice.index.qdrant.server import (
    KEYWORDS,
    PREFIXED,
    PROVENANCE,
    Clause,
    Condition,
    Payload,
    Point,
    ServerCollection,
    Weights,
    make_point,
)
from sluice.index.terms.analysis import (
    ENGLISH,
    STOP_WORDS,
    analyse,
    analyse_question,
    analysis_language,
    detect_language,
    extract_query_identifiers,
)
from sluice.index.terms.terms import USUAL_BOOSTS, extract_chunk_terms, find_first_rows, weigh_repeats
from sluice.text.words import saturation

_NAMESPACE = uuid.UUID("0b2ad9f1-3b0c-5c1e-9d53-5d1f0f6a7c11")
"""Namespace of point ids: an arbitrary value that must never change."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STATE_ID = str(uuid.uuid5(_NAMESPACE, "state"))
CHUNK_FIELDS = ("facts", "chunk", "chunk_id")
DOCUMENT_FIELDS = ("document", "facts", "offset", "chunk_ids")


FORMAT = 2
"""Version of what a point holds: 1 had fewer fields for conditions."""


class CollectionState(Value):
    """Content of the collection, and the journal offset that it covers. A publish stores it last."""

    format: int = 1
    """`FORMAT` when it was written; a collection of another one is filled anew."""
    collection: str = ""
    """Name of the collection itself, by which searches of this generation go on when the alias names another."""
    is_whole: bool = True
    """Whether it has been filled to the end once, and proven."""
    corpus: str
    number: int
    journal_offset: int
    document_count: int
    chunk_count: int
    id_set_hash: Sha256
    model_fingerprint: str | None
    dimension: int | None
    published_at: Moment
    languages: tuple[str, ...] = (ENGLISH,)
    """Languages of the chunks' analyses."""
    averages: tuple[float, ...] = (120.0, 40.0)
    """Average terms of a chunk's text, and of its identifiers, for BM25; measured when the collection was begun."""

    @property
    def name(self) -> str:
        """Name of the generation: like a local one's, with the first digits of its id-set hash."""
        return f"q{self.number:08d}-{self.id_set_hash[:16]}"

    def point(self) -> Point:
        """Return the point that stores this state."""
        return make_point(STATE_ID, {"kind": "state", "state": self.model_dump_json()})


class StoredDocument(Value):
    """A document in the collection: its facts, the journal offset of its record, the ids of its chunks."""

    facts: DocumentFacts
    journal_offset: int
    chunk_ids: tuple[str, ...]


def parse_state(payload: Payload | None, corpus: str) -> CollectionState | None:
    """Parse the state in its point's payload. Raises `Corrupted` when it is not a state of this corpus."""
    if payload is None:
        return None
    try:
        state = CollectionState.model_validate_json(payload["state"])
    except (KeyError, ValidationError) as error:
        raise Corrupted(f"the Qdrant collection of {corpus} does not say what it covers: rebuild it") from error
    if state.corpus != corpus:
        raise Corrupted(f"the Qdrant collection of {corpus} was filled for corpus {state.corpus}")
    return state


def make_points(generation: int, offset: int, record: Upsert, averages: Sequence[float]) -> Iterator[Point]:
    """Yield the points of a document version: one for the document, one for each distinct chunk."""
    document = record.document
    facts, key = make_facts(document), make_key(document.document_id)
    life = {"document": key, "since": generation}
    rows = find_first_rows(document.chunks)
    own = {"kind": "document", "facts": facts.model_dump_json(), "offset": offset, "chunk_ids": list(rows)}
    yield make_point(_point_id(key, "", generation), {**life, **own})
    about = {**life, "kind": "chunk", "facts": facts.model_dump_json(), **_filterable(facts)}
    for chunk_id, row in rows.items():
        chunk = document.chunks[row]
        payload = {**about, "chunk_id": chunk_id, "ordinal": chunk.ordinal, "chunk": chunk.model_dump_json()}
        if spoken := chunk.language or document.language:
            payload["languages"] = spoken.lower()
        language = analysis_language(chunk.language or document.language)
        terms = weigh_chunk(document.title, chunk, averages, language)
        yield make_point(_point_id(key, chunk_id, generation), payload, record.vectors[row].tolist(), terms)


def read_chunk(payload: Payload) -> tuple[DocumentFacts, Chunk]:
    """Return the chunk in a point and its document's facts. Raises `Corrupted` when the payload lacks them."""
    try:
        facts = DocumentFacts.model_validate_json(payload["facts"])
        return facts, Chunk.model_validate_json(payload["chunk"])
    except (KeyError, ValidationError) as error:
        raise Corrupted(f"a point of the Qdrant collection does not decode: {error}") from error


def read_document(payload: Payload) -> StoredDocument:
    """Return the document in a point. Raises `Corrupted` when the payload lacks it."""
    try:
        facts = DocumentFacts.model_validate_json(payload["facts"])
        return StoredDocument(facts=facts, journal_offset=payload["offset"], chunk_ids=tuple(payload["chunk_ids"]))
    except (KeyError, ValidationError) as error:
        raise Corrupted(f"a point of the Qdrant collection does not decode: {error}") from error


def where_live(generation: int, kind: str) -> Condition:
    """Return the condition for the chunks, or the documents, that are live in a generation."""
    return (
        Clause("any", "kind", (kind,)),
        Clause("at_most", "since", generation),
        Clause("absent_or_above", "until", generation),
    )


def where_document_is(document_ids: Sequence[str]) -> Condition:
    """Return the condition for the points of these documents."""
    return (Clause("any", "document", tuple(make_key(name) for name in document_ids)),)


def where_matches(where: Where | None) -> tuple[Condition, Where | None]:
    """Return the condition for chunks that match, and the rest that the server cannot compare; None without one."""
    told: Condition = ()
    rest: list[Where] = []
    for part in (where.all_of or (where,)) if where else ():
        try:
            told += _clauses(part)
        except LookupError:
            rest.append(part)
    return told, all_of(*rest)


def _clauses(where: Where) -> Condition:
    """Return the condition as the server's clauses. Raises `LookupError` for what it cannot compare."""
    if where.all_of:
        return tuple(clause for part in where.all_of for clause in _clauses(part))
    if where.any_of:
        return (Clause("some", "", tuple(_clauses(part) for part in where.any_of)),)
    if where.none_of:
        return (Clause("none", "", _clauses(where.none_of)),)
    return tuple(_clause(where.field or "", operator, bound) for operator, bound in where.comparisons.items())


_STORED_AS = {"id": "document", "domain": "domains", "language": "languages"}
"""Fields that are stored by another name than they have in a condition."""
_MOMENTS = ("fetched_at", "published_at")


def _clause(field: str, operator: str, bound: Any) -> Clause:
    if operator == "ne" or (operator == "exists" and not bound):
        return Clause("none", "", (_clause(field, *(("eq", bound) if operator == "ne" else ("exists", True))),))
    name = field.removeprefix(METADATA)
    stored = "metadata" if name != field else _STORED_AS.get(field, field)
    values = tuple(bound) if operator == "in" else (bound,)
    if stored not in (*KEYWORDS, *PREFIXED, *_MOMENTS):
        raise LookupError(field)
    if operator == "exists" and stored == "metadata":
        return Clause("any", stored, [_token(name)])
    if operator == "exists":
        return Clause("none", "", (Clause("absent", stored, None),))
    if stored in _MOMENTS:
        moments = [_microseconds(moment_of(one)) for one in values]
        if operator in ("eq", "in"):
            return Clause("any", stored, moments)
        return Clause("above" if operator[0] == "g" else "at_most", stored, moments[0] - (operator in ("gte", "lt")))
    if operator in ("eq", "in"):
        return Clause("any", stored, [_as_stored(field, one) for one in values])
    if operator == "prefix" and stored in PREFIXED:
        return Clause("prefix", stored, bound)
    raise LookupError(field)


def _as_stored(field: str, value: Any) -> str:
    if field.startswith(METADATA):
        return _token(field.removeprefix(METADATA), value)
    if field == "id":
        return make_key(value)
    text = str(value)
    return {"domain": text.lower().strip("."), "language": text.lower()}.get(field, text)


def make_key(document_id: str) -> str:
    """Make the key of a document: 32 hexadecimal digits, for any characters in its id."""
    return f"{document_key(document_id):032x}"


def _filterable(facts: DocumentFacts) -> dict[str, object]:
    host = parse_host(facts.url) or ""
    labels = host.split(".") if host else []
    told = facts.provenance
    fields: dict[str, object] = {
        "url": facts.url,
        "path": facts.file_path,
        "title": facts.title,
        "domains": [".".join(labels[start:]) for start in range(len(labels))],
        **{name: getattr(told, name) for name in PROVENANCE},
        **{name: _microseconds(moment) for name in _MOMENTS if (moment := getattr(told, name))},
        "metadata": [token for one in facts.metadata.items() for token in (_token(one[0]), _token(*one))],
    }
    return {name: value for name, value in fields.items() if value not in (None, [])}


def _token(name: str, value: Scalar | None = None) -> str:
    """Return a name and its value as one word, equal for equal values of one kind: `True` is not `1`, but `1.0` is.

    Without a value it is the word of every document that has the name."""
    match value:
        case None:
            return f"{len(name)}:{name}"
        case bool():
            told = f"b:{value}"
        case str():
            told = f"s:{value}"
        case _:
            told = f"n:{int(value) if value == int(value) else value!r}"
    return f"{len(name)}:{name}={told}"


def _microseconds(moment: datetime) -> int:
    """Return microseconds since 1970: below 2^53, so that a double holds them exactly."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _point_id(key: str, chunk_id: str, generation: int) -> str:
    """Return the id of a point. It depends on chunk and generation alone, so storing a point twice changes nothing."""
    return str(uuid.uuid5(_NAMESPACE, f"{key}/{chunk_id}/{generation}"))


def read_live_documents(
    collection: ServerCollection, number: int, document_ids: Sequence[str]
) -> dict[str, StoredDocument]:
    """Read the documents that are live in the generation `number`, by id."""
    found = collection.points(where_live(number, "document") + where_document_is(document_ids), DOCUMENT_FIELDS)
    documents = (read_document(hit.payload) for hit in found)
    return {document.facts.document_id: document for document in documents}


USUAL_AVERAGES = (120.0, 40.0)
"""Average terms of a chunk's text, and parts of its identifiers. Chunks' weights hold the averages of their corpus, so
these are measured once, in its first `_SAMPLE_CHUNKS`; `_PRIOR_CHUNKS` usual ones count too: it may begin with one."""
_SAMPLE_CHUNKS, _PRIOR_CHUNKS = 2_000, 20
_STOPPED = frozenset(STOP_WORDS)
MOST_TERMS = 256
"""Most content words, and most identifiers, sent of a question: more than `Boosts.max_terms`, as rarity is unknown."""


def weigh_chunk(
    title: str | None, chunk: Chunk, averages: Sequence[float] = USUAL_AVERAGES, language: str = ENGLISH
) -> Weights:
    """Weigh the terms of a chunk analysed as `language`, by the document side of BM25; empty where it has no terms."""
    terms = extract_chunk_terms(title, language, chunk)
    weights: Weights = {}
    for field, average in zip(("text", "code"), averages, strict=True):
        for term, weight in saturate(terms[field].split(), average).items():
            place = hash_dimension(field, term)
            weights[place] = weights.get(place, 0.0) + weight
    return weights


def measure_averages(records: Iterable[Record]) -> tuple[float, ...]:
    """Return the average number of terms of the first chunks' texts, and of parts of identifiers."""
    upserts = (record.document for record in records if isinstance(record, Upsert))
    pairs = islice(((document, chunk) for document in upserts for chunk in document.chunks), _SAMPLE_CHUNKS)
    found = [
        extract_chunk_terms(one.title, analysis_language(chunk.language or one.language), chunk) for one, chunk in pairs
    ]
    return tuple(
        (sum(len(terms[field].split()) for terms in found) + _PRIOR_CHUNKS * usual) / (len(found) + _PRIOR_CHUNKS)
        for field, usual in zip(("text", "code"), USUAL_AVERAGES, strict=True)
    )


def weigh_question(text: str, languages: Sequence[str] = (ENGLISH,), *, with_function_words: bool = False) -> Weights:
    """Weigh the terms of a question, analysed as each of `languages`, by field; empty where it has no terms.

    Only the first `MOST_TERMS` words count. Where the question's function words show its language, only that language
    is searched, since the frequency of a term in all languages together is not known before the search.
    """
    language = detect_language(text, languages)
    content, function, occurrences = analyse_question(text, (language,) if language else tuple(languages))
    words = content[:MOST_TERMS] + (function if with_function_words else ())
    terms = {term: weigh_repeats(occurrences[term]) for one in words for term in one}
    names = list(dict.fromkeys(term for term in extract_query_identifiers(text) if term not in _STOPPED))
    weights = {hash_dimension("text", term): weight for term, weight in terms.items()}
    return weights | {hash_dimension("code", name): USUAL_BOOSTS.code for name in names[:MOST_TERMS]}


def saturate(terms: Sequence[str], average_terms: float) -> Mapping[str, float]:
    """Return the formula above for each distinct term of one field."""
    return {term: saturation(count, len(terms) / average_terms) for term, count in Counter(terms).items()}


def solve_frequency(score: float, weight: float, population: int) -> int:
    """Compute the number of chunks among `population` with a term, from the score of one of them for that term alone.

    The score is the chunk's `weight` times the inverse document frequency, which is solved for the frequency.
    """
    if weight <= 0:
        return 0
    found = (population + 1) / math.exp(score / weight) - 0.5
    return min(population, max(1, round(found)))


def list_dimensions(term: str, language: str = ENGLISH) -> list[int]:
    """List the dimension of each part of a term analysed as `language`."""
    return [hash_dimension("text", part) for part in analyse(term, language)]


def hash_dimension(field: str, term: str) -> int:
    """Hash a term in a field to its dimension: an unsigned number of 32 bits."""
    name = f"{field}\0{term}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=4).digest(), "big")
