"""One filter language for documents, the same in queries, lists and requests to forget: as JSON or as text.

    {"and": [{"field": "trust", "gte": 0.5}, {"field": "language", "in": ["en", "de"]}, {"not": {…}}]}
    trust >= .5 and language in ("en", "de") and not url prefix "https://example.org/old/"

A comparison with a field that a document lacks does not hold, and its negation holds. A domain equals its subdomains
too. A value of `metadata` equals one of its own kind alone: `true` is not `1`. A moment without a zone is in UTC.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from sluice.contracts.base import Value, is_empty, is_none
from sluice.contracts.document import Scalar
from sluice.contracts.errors import plain_sentence

Kind = Literal["text", "number", "moment", "any"]
KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("id", "url", "path", "title", "domain", "language", "source", "origin", "author"), "text"),
    **dict.fromkeys(("run_id", "submitted_by"), "text"),
    **dict.fromkeys(("fetched_at", "published_at"), "moment"),
    "trust": "number",
}
"""The fields of a document; besides these `metadata.NAME`."""
METADATA = "metadata."
MOST_DEEP, MOST_CHARACTERS = 16, 8_000
"""The most levels of a condition, and the longest text of one."""

Order = Literal["gt", "gte", "lt", "lte"]
OPERATORS = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "prefix", "contains", "exists")
SYMBOLS = {"=": "eq", "==": "eq", "!=": "ne", "<>": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_ORDERED = frozenset({"gt", "gte", "lt", "lte"})
_OF_TEXT = frozenset({"prefix", "contains"})

Bound = Annotated[Scalar | None, Field(exclude_if=is_none)]


class Where(Value):
    """A condition: exactly one of `and`, `or`, `not` and `field`. Several comparisons of one field must all hold."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    all_of: Annotated[tuple[Where, ...], Field(alias="and", exclude_if=is_empty)] = ()
    any_of: Annotated[tuple[Where, ...], Field(alias="or", exclude_if=is_empty)] = ()
    none_of: Annotated[Where | None, Field(alias="not", exclude_if=is_none)] = None
    field: Annotated[str | None, Field(max_length=200, exclude_if=is_none)] = None
    eq: Bound = None
    ne: Bound = None
    gt: Bound = None
    gte: Bound = None
    lt: Bound = None
    lte: Bound = None
    one_of: Annotated[tuple[Scalar, ...] | None, Field(alias="in", exclude_if=is_none)] = None
    prefix: Annotated[str | None, Field(exclude_if=is_none)] = None
    contains: Annotated[str | None, Field(exclude_if=is_none)] = None
    """Text that the field has in it, in any case."""
    exists: Annotated[bool | None, Field(exclude_if=is_none)] = None
    """Whether the document has the field at all."""

    @model_validator(mode="after")
    def _is_whole(self) -> Where:
        parts = (self.all_of, self.any_of, self.none_of, self.field)
        if sum(bool(part) for part in parts) != 1:
            raise ValueError('give exactly one of "and", "or", "not" and "field"')
        if self.depth > MOST_DEEP:
            raise ValueError(f"is more than {MOST_DEEP} levels deep")
        if bool(self.field) != bool(self.comparisons):
            told = ", ".join(OPERATORS)
            raise ValueError(f"a field needs a comparison, and a comparison a field: one of {told}")
        if self.field is not None:
            for operator, bound in self.comparisons.items():
                _require_fit(self.field, operator, bound)
        return self

    @property
    def depth(self) -> int:
        """Return the number of levels."""
        return 1 + max((one.depth for one in self.parts), default=0)

    @property
    def parts(self) -> tuple[Where, ...]:
        """Return the conditions that this one is made of; none for a comparison."""
        return self.all_of or self.any_of or ((self.none_of,) if self.none_of else ())

    @property
    def comparisons(self) -> dict[str, Any]:
        """Return the bounds by operator, in the names of the JSON."""
        named = ((name, self.one_of if name == "in" else getattr(self, name)) for name in OPERATORS)
        return {name: bound for name, bound in named if bound is not None}

    @property
    def fields(self) -> frozenset[str]:
        """Return every field that the condition names."""
        return frozenset((self.field,) if self.field else ()).union(*(one.fields for one in self.parts))


def compare(field: str, operator: str, bound: Any) -> Where:
    """Return one comparison."""
    return Where.model_validate({"field": field, operator: bound})


def all_of(*conditions: Where | None) -> Where | None:
    """Return the condition that all of these hold, None among them for no condition; None if all are."""
    given = tuple(one for one in conditions if one is not None)
    return Where(all_of=given) if len(given) > 1 else next(iter(given), None)


def kind_of(field: str) -> Kind:
    """Return the kind of a field's values. Raises `ValueError`, with the most similar name, for an unknown field."""
    if field.startswith(METADATA) and len(field) > len(METADATA):
        return "any"
    if field not in KINDS:
        similar = difflib.get_close_matches(field, KINDS, 1)
        hint = f"did you mean {similar[0]}?" if similar else f"known are {', '.join(KINDS)} and metadata.NAME"
        raise ValueError(f"{field!r} is no field: {hint}")
    return KINDS[field]


def moment_of(bound: Scalar) -> datetime:
    """Return the moment of a bound: a day or an ISO 8601 moment, without a zone in UTC. Raises `ValueError`."""
    try:
        moment = datetime.fromisoformat(str(bound))
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{bound!r} is no moment: write 2026-05-01 or 2026-05-01T12:00:00Z") from error


def _require_fit(field: str, operator: str, bound: Any) -> None:
    """Raise `ValueError` if the operator or the bound does not fit the field."""
    kind = kind_of(field)
    if operator == "exists":
        return
    if (kind == "text" and operator in _ORDERED) or (kind in ("number", "moment") and operator in _OF_TEXT):
        raise ValueError(f"{field} is a {kind}, which has no {operator}")
    for one in bound if operator == "in" else (bound,):
        is_number = isinstance(one, (int, float)) and not isinstance(one, bool)
        if kind == "moment":
            moment_of(one)
        elif (kind == "number" and not is_number) or (kind == "text" and not isinstance(one, str)):
            raise ValueError(f"{field} is a {kind}, and {one!r} is none")
        elif operator in _ORDERED and isinstance(one, bool):
            raise ValueError(f"{one!r} has no order")


class WrongText(ValueError):
    """A text that is no condition; the message names the character, from 1."""


class _Token(NamedTuple):
    kind: str
    text: str
    place: int


_TOKENS = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<moment>\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?)
    |(?P<number>-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)|(?P<symbol><=|>=|!=|<>|==|[=<>(),])
    |(?P<word>[^\W\d][\w.:-]*)|(?P<space>\s+)""",
    re.VERBOSE,
)


def parse_where(text: str) -> Where:
    """Return the condition that a text says. Raises `WrongText`, which names the place and what would do there."""
    if len(text) > MOST_CHARACTERS:
        raise WrongText(f"is longer than {MOST_CHARACTERS} characters: send JSON in a body")
    return _Parser(text).whole()


class _Parser:
    """Reads one text by recursive descent: `or` binds least, then `and`, then `not`."""

    def __init__(self, text: str) -> None:
        self._tokens, self._at, self._deep = list(_tokens(text)), 0, 0

    def whole(self) -> Where:
        """Return the whole text's condition."""
        found = self._joined("or", "and")
        if self._next.kind != "end":
            raise self._wrong("'and', 'or' or the end")
        return found

    def _joined(self, word: str, *tighter: str) -> Where:
        parts = list[Where]()
        while not parts or self._took(word):
            parts.append(self._joined(*tighter) if tighter else self._one())
        return Where.model_validate({word: parts}) if len(parts) > 1 else parts[0]

    def _one(self) -> Where:
        self._deep += 1
        if self._deep > MOST_DEEP:
            raise WrongText(f"at character {self._next.place + 1}: more than {MOST_DEEP} levels deep")
        if self._took("not"):
            found = Where(none_of=self._one())
        elif self._took("("):
            found = self._joined("or", "and")
            self._need(")")
        else:
            found = self._comparison()
        self._deep -= 1
        return found

    def _comparison(self) -> Where:
        begin = self._next
        if begin.kind != "word" or begin.text.lower() in ("and", "or", "in"):
            raise self._wrong("a field, 'not' or '('")
        self._at += 1
        is_negated = self._took("not")
        operator = SYMBOLS.get(self._next.text) or self._next.text.lower()
        if operator not in OPERATORS:
            raise self._wrong("one of = != < <= > >= in prefix contains exists")
        self._at += 1
        bound = True if operator == "exists" else self._values() if operator == "in" else self._value()
        try:
            found = compare(begin.text, operator, bound)
        except ValidationError as error:
            raise WrongText(f"at character {begin.place + 1}: {plain_sentence(dict(error.errors()[0]))}") from error
        return Where(none_of=found) if is_negated else found

    def _values(self) -> list[Scalar]:
        self._need("(")
        found = list[Scalar]()
        while not found or self._took(","):
            found.append(self._value())
        self._need(")")
        return found

    def _value(self) -> Scalar:
        kind, text, _ = self._next
        if kind not in ("text", "moment", "number") and text.lower() not in ("true", "false"):
            raise self._wrong("a value: a text in quotes, a number, a moment, true or false")
        self._at += 1
        if kind == "text":
            return re.sub(r"\\(.)", r"\1", text[1:-1])
        if kind == "number":
            return int(text) if text.lstrip("-").isdigit() else float(text)
        return text if kind == "moment" else text.lower() == "true"

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _took(self, word: str) -> bool:
        is_it = self._next.kind in ("word", "symbol") and self._next.text.lower() == word
        self._at += is_it
        return is_it

    def _need(self, symbol: str) -> None:
        if not self._took(symbol):
            raise self._wrong(repr(symbol))

    def _wrong(self, expected: str) -> WrongText:
        token = self._next
        found = "the text ends" if token.kind == "end" else f"{token.text!r} stands there"
        return WrongText(f"at character {token.place + 1}: expected {expected}, and {found}")


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while place < len(text):
        found = _TOKENS.match(text, place)
        if found is None:
            what = "a text that does not end" if text[place] in "\"'" else f"{text[place]!r}, which means nothing here"
            raise WrongText(f"at character {place + 1}: {what}")
        if found.lastgroup != "space":
            yield _Token(found.lastgroup or "", found.group(), place)
        place = found.end()
    yield _Token("end", "", len(text))


def _read(given: Any) -> Any:
    return parse_where(given) if isinstance(given, str) else given


SomeWhere = Annotated[Where, BeforeValidator(_read, json_schema_input_type=Where | str)]
"""A condition as JSON or as text."""
LaterWhere = Annotated[SomeWhere | None, Field(exclude_if=is_none)]


def any_value(field: str, values: Sequence[Scalar]) -> Where | None:
    """Return the condition that the field is one of the values; None without values."""
    return compare(field, "in", values) if values else None
