"""Reads a text as a language model would, and records which characters of the original each letter was read from.

`folded` resolves compatibility forms, look-alikes, accents and invisible characters. `decoded` reads what is encoded
in a text: escapes, base64 and its kin, numbers, shifted and reversed words, digits for letters, marks within words.
Only what looks encoded is decoded, three times at most, so that base64 within base64 is read too.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import html
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from sluice.text.hidden import (
    BLACK_FLAG,
    DIRECTION,
    EMBEDDINGS,
    FLAG_TAGS,
    JOINERS,
    NO_WIDTH,
    SELECTORS_IN_A_ROW,
    characters_of,
)
from sluice.text.orders import known_words

_LOOK_ALIKES = (
    ("аАɑαΑ", "a"), ("ВвΒβьЬ", "b"), ("сСϲ", "c"), ("ԁ", "d"), ("еЕёЁΕε", "e"), ("ɡց", "g"), ("һНΗнհ", "h"),
    ("іІΙιıї", "i"), ("јЈ", "j"), ("ΚκКк", "k"), ("ӏ", "l"), ("МΜм", "m"), ("Νոη", "n"), ("оОοΟօ", "o"),
    ("рРρΡ", "p"), ("ԛ", "q"), ("г", "r"), ("ѕЅ", "s"), ("ТΤтτ", "t"), ("υս", "u"), ("ѵν", "v"), ("ԝѡω", "w"),
    ("хХχΧ", "x"), ("уУΥγ", "y"), ("Ζ", "z"),
)  # fmt: skip
LATIN_OF = {other: latin for others, latin in _LOOK_ALIKES for other in others}
"""Letters of other scripts that look like a Latin one (a selection of Unicode's confusables.txt, UTS 39)."""

_BIDI = characters_of(EMBEDDINGS)
_ZERO_WIDTH = characters_of(NO_WIDTH + JOINERS + DIRECTION) - _BIDI
_BLANK = frozenset("\u2800\ufffc\U0001d159")
"""Symbols that show nothing, beside the characters that Unicode itself calls format, private or unassigned."""
_TAGS_OF_FLAG = re.compile(FLAG_TAGS)
_WORD = re.compile(r"\w+")
_OTHER = re.compile(r"[^\x00-\x7f]")


@dataclass(frozen=True, slots=True)
class Disguise:
    """Characters of the original text (`text[start:end]`) that people see differently from how a model reads them."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read in a text.

    `starts[i]` and `ends[i]` bound the characters of the original that `text[i]` was read from; None where both texts
    have the same offsets. `disguises` are the disguised spans of the original text, with their kind.
    """

    text: str
    starts: Sequence[int] | None = None
    ends: Sequence[int] | None = None
    disguises: tuple[Disguise, ...] = ()

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the characters of the original text that `text[start:end]` was read from."""
        if self.starts is None or self.ends is None or start >= end:
            return start, end
        return min(self.starts[start:end]), max(self.ends[start:end])

    def plain_of(self, disguise: Disguise) -> str:
        """Return what was read from a disguised span of the original."""
        starts = self.starts or range(len(self.text))
        return "".join(self.text[place] for place, at in enumerate(starts) if disguise.start <= at < disguise.end)

    def disguise_within(self, start: int, end: int) -> str | None:
        """Return the kind of disguise in a span of the original text; None where there is none."""
        return next((one.kind for one in self.disguises if one.start < end and start < one.end), None)

    def lowered(self) -> Reading:
        """Return the same reading in lower case; every character keeps its place."""
        text = self.text.lower()
        if len(text) != len(self.text):
            text = "".join(one.lower() if len(one.lower()) == 1 else one for one in self.text)
        return Reading(text, self.starts, self.ends, self.disguises)


def normalise(text: str) -> Reading:
    """Return the letters of `text` in lower case. An ASCII text costs one call of `str.lower`."""
    return folded(text).lowered()


@lru_cache(maxsize=4)
def folded(text: str) -> Reading:
    """Return `text` with its characters folded (Unicode TR 30): Latin without accents, nothing invisible."""
    if text.isascii():
        return Reading(text)
    others = set(_OTHER.findall(text))
    if all(map(_alone, others)):
        for other in others:
            text = text.replace(other, _alone(other))
        return Reading(text)
    read: list[str] = []
    starts: list[int] = []
    disguises: list[Disguise] = []
    at = 0
    for found in _OTHER.finditer(text):
        offset = found.start()
        if offset < at:
            continue
        read.extend(text[at:offset])
        starts.extend(range(at, offset))
        if hidden := _hidden_run(text, offset):
            plain, at, kind = hidden
            if kind:
                disguises.append(Disguise(kind, offset, at))
        else:
            at = offset + 1
            plain, is_mark = _plain(found[0])
            is_short_vowel = "\u064b" <= found[0] <= "\u0652"  # of Arabic, which most texts leave out
            if is_mark and (is_short_vowel or (read and read[-1].isascii())):
                continue
        read.extend(plain)
        starts.extend([offset] * len(plain))
    read.extend(text[at:])
    starts.extend(range(at, len(text)))
    _unmask_look_alikes(read, starts, disguises)
    return Reading("".join(read), starts, [start + 1 for start in starts], tuple(disguises))


@lru_cache(maxsize=4096)
def _alone(character: str) -> str:
    """Return the one letter that a character stands for wherever it stands; nothing where its place decides."""
    plain, is_mark = _plain(character)
    is_seen = not is_mark and not _hidden_run(character, 0)
    return plain if is_seen and len(plain) == 1 and plain not in LATIN_OF else ""


def _hidden_run(text: str, offset: int) -> tuple[str, int, str | None] | None:
    """Return the letters that invisible characters from `offset` on encode, their end, and the kind of disguise."""
    character = text[offset]
    if character in _BIDI:
        end = _end_of(text, offset, _BIDI.__contains__)
        return "", end, "bidi" if character in "\u202d\u202e" else None
    if "\U000e0000" <= character <= "\U000e007f":
        end = _end_of(text, offset, lambda one: "\U000e0000" <= one <= "\U000e007f")
        is_flag = offset > 0 and text[offset - 1] == BLACK_FLAG and _TAGS_OF_FLAG.fullmatch(text, offset, end)
        told = "".join(chr(ord(one) - 0xE0000) for one in text[offset:end])
        return ("", end, None) if is_flag else ("".join(filter(str.isprintable, told)), end, "tag-characters")
    if "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef":
        if (found := SELECTORS_IN_A_ROW.match(text, offset)) is None:
            return "", offset + 1, None
        values = bytes(_selector_value(one) for one in found[0])
        told = "".join(filter(str.isprintable, values.decode("utf-8", "ignore")))
        return told, found.end(), "variation-selectors" if len(values) >= _ENCODED_SELECTORS else None
    if _is_unseen(character):
        end = _end_of(text, offset, _is_unseen)
        inside = offset > 0 and end < len(text) and text[offset - 1].isalpha() and text[end].isalpha()
        is_latin = inside and text[offset - 1] < "\u0250" and text[end] < "\u0250" and text[offset] != "\u00ad"
        return "", end, "zero-width" if is_latin or end - offset >= _ENCODED_RUN else None
    return None


_ENCODED_RUN = 16
"""Zero-width characters in a row that can hold two letters as bits: more than any script needs."""
_ENCODED_SELECTORS = 4
"""Variation selectors in a row that encode text; a character takes only one."""


@lru_cache(maxsize=4096)
def _is_unseen(character: str) -> bool:
    return (
        character in _ZERO_WIDTH
        or character in _BLANK
        or unicodedata.category(character) in ("Cf", "Cn", "Co", "Cs", "Cc")
    )


def _end_of(text: str, offset: int, belongs: Callable[[str], bool]) -> int:
    while offset < len(text) and belongs(text[offset]):
        offset += 1
    return offset


def _selector_value(character: str) -> int:
    point = ord(character)
    return point - 0xFE00 if point < 0xE0000 else point - 0xE0100 + 16


_BRAILLE = dict(zip("⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵", "abcdefghijklmnopqrstuvwxyz", strict=True))
_NAMED = re.compile(r"(?:LATIN|NEGATIVE|LISU|REGIONAL) (?:.* )?([A-Z])(?: WITH .*)?")
"""Unicode's name of a letter in another form: small capitals, negative circles, turned or crossed letters."""


@lru_cache(maxsize=4096)
def _plain(character: str) -> tuple[str, bool]:
    """Return a character's compatibility form, without Latin accents; and whether it is a combining mark."""
    apart = _BRAILLE.get(character) or unicodedata.normalize("NFKD", character).strip("()") or character
    if apart[0].isascii():
        return "".join(one for one in apart if not unicodedata.combining(one)), False
    if named := _NAMED.fullmatch(unicodedata.name(character, "")):
        return named[1].lower() if " SMALL " in named[0] else named[1], False
    return unicodedata.normalize("NFKC", character), bool(unicodedata.combining(character))


def _unmask_look_alikes(read: list[str], starts: Sequence[int], disguises: list[Disguise]) -> None:
    """Replace look-alikes by Latin letters in words that mix both, and beside several such in whole words."""
    words = [word for word in _WORD.finditer("".join(read)) if _looks_latin(word[0])]
    mixed = [word for word in words if any(letter.isascii() and letter.isalpha() for letter in word[0])]
    for word in words if len(mixed) >= _FEW else mixed:
        read[word.start() : word.end()] = [LATIN_OF.get(letter, letter) for letter in word[0]]
        disguises.append(Disguise("look-alike-letters", starts[word.start()], starts[word.end() - 1] + 1))


def _looks_latin(word: str) -> bool:
    """Return whether a word has look-alikes of Latin letters, and besides these only ASCII."""
    return not word.isascii() and all(letter.isascii() or letter in LATIN_OF for letter in word)


class Piece(NamedTuple):
    """What stands for `text[start:end]`."""

    start: int
    end: int
    plain: str
    kind: str


_DEEPEST = 3
_LONGEST_RUN = 20_000
"""Most characters of a run that are decoded."""
_MOST_GROWTH = 20_000
"""Characters by which a decoded text may be longer than the original; escapes and codes make it shorter."""


def decoded(text: str) -> Reading | None:
    """Return `text` with what is encoded in it decoded; None where nothing is.

    Kinds of the disguises are `encoded`, `spaced-letters`, `masked` (marks or digits within words) and `joined` (words
    with signs for blanks, as names in source code have them).
    """
    first = reading = folded(text)
    for _ in range(_DEEPEST):
        pieces = _pieces(reading.text)
        after = replaced(reading, pieces) if pieces else reading
        if after is reading or len(after.text) > len(text) + _MOST_GROWTH:
            break
        reading = after
    return None if reading is first else reading


def _pieces(text: str) -> list[Piece]:
    """Return what is decoded in one step, in order, without overlaps: codes, or words, or whole paragraphs."""
    looks = [(_look if len(word) <= _LONGEST_CACHED else _look.__wrapped__)(word) for word in set(text.split())]
    codes = (*_CODES, *_LONG_CODES) if any(one.code for one in looks) else _CODES
    words = _WORDS if any(one.masked for one in looks) else _WORDS[:1]
    is_ciphered = sum(one.ciphered for one in looks) >= _CIPHERED
    for step in (_decode(text, codes), _decode(text, words), _ciphered(text) if is_ciphered else ()):
        pieces: list[Piece] = []
        for piece in sorted(step):
            if piece.plain != text[piece.start : piece.end] and (not pieces or piece.start >= pieces[-1].end):
                pieces.append(piece)
        if pieces:
            return pieces
    return []


def replaced(reading: Reading, pieces: Sequence[Piece]) -> Reading:
    """Return a reading with `pieces`, in order and without overlaps, in place of what they stand for."""
    text: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    disguises = list(reading.disguises)

    def keep(low: int, high: int) -> None:
        text.append(reading.text[low:high])
        starts.extend(range(low, high) if reading.starts is None else reading.starts[low:high])
        ends.extend(range(low + 1, high + 1) if reading.ends is None else reading.ends[low:high])

    at = 0
    for piece in pieces:
        keep(at, piece.start)
        start, end = reading.span(piece.start, piece.end)
        text.append(piece.plain)
        starts.extend([start] * len(piece.plain))
        ends.extend([end] * len(piece.plain))
        disguises.append(Disguise(piece.kind, start, end))
        at = piece.end
    keep(at, len(reading.text))
    return Reading("".join(text), starts, ends, tuple(disguises))


Found = tuple[re.Match[str], str]


class Decoder(NamedTuple):
    """One way to disguise a text: its pattern, and what a match says in plain; None where it says nothing."""

    kind: str
    pattern: re.Pattern[str]
    decode: Callable[[re.Match[str]], str | None]
    is_telling: Callable[[Sequence[Found]], bool] = bool
    """Whether all that was found is enough to be no accident."""
    is_possible: Callable[[str], bool] = bool
    """A quick test of a text, which most texts fail."""


def _decode(text: str, decoders: Iterable[Decoder]) -> Iterator[Piece]:
    for one in decoders:
        if one.is_possible(text):
            found = [(match, plain) for match in one.pattern.finditer(text) if (plain := one.decode(match)) is not None]
            if one.is_telling(found):
                yield from (_piece(match, plain, one.kind) for match, plain in found)


def _piece(match: re.Match[str], plain: str, kind: str) -> Piece:
    """Return what stands for a match, without its first characters and last signs that are the same in plain."""
    (start, end), text = match.span(), match.string
    while plain and start < end and plain[0] == text[start]:
        start, plain = start + 1, plain[1:]
    while plain and start < end and plain[-1] == text[end - 1] and not plain[-1].isalnum():
        end, plain = end - 1, plain[:-1]
    return Piece(start, end, plain, kind)


class _Look(NamedTuple):
    """What a word of a text, up to the next blanks, may hold."""

    code: bool
    """Of a code with many characters."""
    masked: bool
    """Words with marks, digits or nothing between."""
    ciphered: int
    """Letters of known words in a cipher."""


_LONGEST_CACHED = 60


@lru_cache(maxsize=20_000)
def _look(word: str) -> _Look:
    ciphered = sum(map(len, _enciphered().keys() & set(_WORD.findall(word.lower()))))
    is_masked = any(piece.plain != word[piece.start : piece.end] for piece in _decode(word, _WORDS))
    return _Look(bool(_MIXED.search(word)), is_masked, ciphered)


_ESCAPE = re.compile(
    r"\\u(?:\{[0-9a-fA-F]{1,6}\}|[0-9a-fA-F]{4})|\\U[0-9a-fA-F]{8}|\\x[0-9a-fA-F]{2}|\\[0-3][0-7]{2}|"
    r"=\r?\n|=[0-9A-F]{2}(?![0-9A-Za-z])|(?<=[A-Za-z ])=[0-9A-F]{2}(?=[a-z])|(?:%[0-9a-fA-F]{2})+|"
    r"\+A[A-Za-z0-9/]{5,}-|&(?:#x[0-9a-fA-F]{2,7};?|#[0-9]{2,7};?|[a-zA-Z]{2,24};)"
)
_LETTER = re.compile("[A-Za-z]")
_FEW = 3


def _unescaped(found: re.Match[str]) -> str:
    escape = found[0]
    if escape[0] == "%":
        return unquote(escape, errors="replace")
    if escape[0] == "&":
        return html.unescape(escape)
    if escape[0] == "+":
        return escape.encode().decode("utf-7", "replace")
    if escape[-1] == "\n":
        return ""
    octal = escape[0] == "\\" and escape[1].isdigit()
    point = int(escape.strip("\\uUx{}="), 8 if octal else 16)
    return chr(point) if point < 0x110000 else escape


_TAG = re.compile(r"(?:<(?:/?[a-zA-Z][^<>\n]{0,80}|!--[^<>]{0,80}--)>)+")
_PARTING = ("br", "p>", "li", "td", "/p", "/l", "/t", "/d")
"""Beginnings of tags that part lines or paragraphs."""


def _is_within_word(found: re.Match[str]) -> bool:
    around = found.string[found.start() - 1 : found.start()], found.string[found.end() : found.end() + 1]
    return all(map(str.isalpha, around)) and found[0][1:3].lower() not in _PARTING


_NUMBERS = re.compile(r"(?<![\w.])(?>(?:(?>(?:0[xob]|\\x|&#|%)?)[0-9a-fA-F]{2,8}+(?:[\s,;:/|-]{1,3}+|(?!\w))){8,})")
_FEW_DIGITS = 8
_NUMBER = re.compile(r"[0-9a-fA-F]{2,}")
_NO_NUMBER = re.compile(r"0[xob]|(?m:^[0-9a-f]{7,8}:? +(?=[0-9a-f]{2,4} ))")


def _from_numbers(found: re.Match[str]) -> str | None:
    """Return the text of a list of numbers of characters, in whichever base gives one."""
    run = found[0].rstrip(" \r\n\t,;:/|-")
    numbers = _NUMBER.findall(_NO_NUMBER.sub("", run))
    for base in (2, 8, 10, 16):
        try:
            points = [int(number, base) for number in numbers]
        except ValueError:
            continue
        if all(point < 0x110000 for point in points) and (plain := _told("".join(map(chr, points)))):
            return plain + found[0][len(run) :]
    return None


_RUN = re.compile(
    r"(?<![\w+/])[\w+/-]{8,}={0,6}(?:[ \t]*\r?\n[ \t>#*/|]*[\w+/-]{8,}={0,6}(?=[ \t]*(?:\r?\n|$)))*", re.ASCII
)
"""A word of the alphabets of base64, base32 or hexadecimal, or lines of one such word each."""
_GROUPS = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{4,8}(?: [A-Za-z0-9+/_-]{4,8}={0,2}){5,}(?![\w+/=-])")
_BASE85 = re.compile(r"(?<!\S)(?=\S{0,40}[!#$%&*+();<=>?@^_`{|}~\"',./:\[\\\]-])[!-~]{20,}(?!\S)")
_SHORTEST_RUN = 16
_LAYOUT = re.compile(r"\s[\s>#*/|]*")
_MIXED = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|\d[a-zA-Z]|[a-zA-Z]\d")
"""How encoded words differ from written ones: capitals and digits stand within them."""
_GZIP_OR_ZLIB = 47


def _from_run(found: re.Match[str]) -> str | None:
    """Return what a run says, or what is behind its last slash, as in a `data:` address."""
    run = found[0]
    for start in dict.fromkeys((0, run.rfind("/") + 1)):
        part = run[start:].rstrip()
        if len(part) >= _SHORTEST_RUN and _MIXED.search(part) and (plain := _from_code(part[:_LONGEST_RUN])):
            return run[:start] + plain
    return None


def _from_code(run: str) -> str | None:
    """Return the text that a run of characters encodes, in the first of the codes that gives one."""
    run = _LAYOUT.sub("", run)
    for alphabet, decode in _ALPHABETS:
        if alphabet.fullmatch(run):
            try:
                found = decode(run)
            except (ValueError, binascii.Error):
                continue
            is_wide = found[1::2].count(0) * 4 > len(found)
            if plain := _told(found.decode("utf-16-le" if is_wide else "utf-8", "replace")):
                return plain
    return None


_SAYS = re.compile(r"[^\W\d_]{2,}[\W_]+[^\W\d_]{2,}|[\u3040-\u9fff\uac00-\ud7a3\u0e00-\u0e7f]{4}|[a-z-]{2,} [/~.-]")


def _told(plain: str) -> str | None:
    """Return a decoded text where it is words, or may be decoded once more; an image, a hash or a key is neither."""
    plain = plain.strip("\0")
    if not all(one.isprintable() or one in "\r\n\t" for one in plain) or "\ufffd" in plain:
        return None
    if _ESCAPE.search(plain) or (len(plain) >= _SHORTEST_RUN and _RUN.fullmatch(plain.strip())):
        return plain
    letters = sum(one.isalnum() or one.isspace() for one in plain)
    return plain if _SAYS.search(plain) and letters >= 0.7 * len(plain) else None


def _from_base64(run: str) -> bytes:
    """Decode a run in either alphabet, with the whole bytes of a last, incomplete group, and decompress it."""
    run = run.rstrip("=").replace("-", "+").replace("_", "/")
    rest = len(run) % 4
    plain = base64.b64decode(run[: len(run) - (rest == 1)] + "=" * (-rest % 4 if rest > 1 else 0), validate=True)
    with contextlib.suppress(zlib.error):
        return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(plain, _MOST_GROWTH)
    return plain


_ALPHABETS: tuple[tuple[re.Pattern[str], Callable[[str], bytes]], ...] = (
    (re.compile(r"(?:[0-9a-fA-F]{2})+"), bytes.fromhex),
    (re.compile(r"[A-Z2-7]+={0,6}|[a-z2-7]+={0,6}"), lambda run: base64.b32decode(_padded(run.rstrip("=").upper(), 8))),
    (re.compile(r"[\w+/-]+={0,2}", re.ASCII), _from_base64),
    (re.compile(r"[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]+"), base64.b85decode),
    (re.compile(r"(?:<~)?[!-uz]+(?:~>)?"), lambda run: base64.a85decode(run.removeprefix("<~").removesuffix("~>"))),
)
"""Each code's alphabet, and how it is decoded."""


def _padded(run: str, group: int) -> str:
    return run + "=" * (-len(run) % group)


_SPACED = re.compile(r"(?<!\w)(?:[^\W_][ .\-_*·|/,;:!?'’\"]{1,6}){6,}[^\W_](?!\w)")
_PAIR = 2


def _letters_together(found: re.Match[str]) -> str:
    """Return spaced letters as words: two signs in a row, one of them a blank, part words."""
    run = found[0]
    if len(parts := run.split()) * _PAIR <= sum(map(str.isalnum, run)):
        return " ".join("".join(filter(str.isalnum, part)) for part in parts)
    read: list[str] = []
    for place, character in enumerate(run):
        ahead = run[place : place + 3]
        if character.isalnum() or (character in ",;:.!?" and len(ahead) > _PAIR and ahead[1:].isspace()):
            read.append(character)
        elif read and read[-1] != " " and len(ahead[:_PAIR]) == _PAIR and ahead[:_PAIR].isspace():
            read.append(" ")
    return " ".join(map(_divided, "".join(read).split()))


_CODES = (
    Decoder("spaced-letters", _SPACED, _letters_together),
    Decoder(
        "encoded",
        _ESCAPE,
        _unescaped,
        lambda found: len(found) >= _FEW or any(_LETTER.search(plain) for _, plain in found),
        lambda text: any(mark in text for mark in ("\\", "%", "&", "=", "+A")),
    ),
    Decoder("masked", _TAG, lambda _: "", lambda tags: sum(_is_within_word(tag) for tag, _ in tags) >= _FEW),
    Decoder("encoded", _NUMBERS, _from_numbers, bool, lambda text: sum(map(text.count, "0123456789")) >= _FEW_DIGITS),
)
"""What stands for single characters."""
_LONG_CODES = tuple(Decoder("encoded", pattern, _from_run) for pattern in (_RUN, _GROUPS, _BASE85))
"""What stands for many characters, tried where a word looks like one of them."""


_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LONGEST_WORD = 20
_GLUED = re.compile(r"(?<![^\W\d_])[^\W\d_]{16,80}(?![^\W\d_])")
_JOINED = re.compile(r"(?<![^\W\d_])_*[^\W\d_]+(?:[*_~`|.^/+:\\-]{1,4}[^\W\d_]+)+(?![^\W\d_])_*")
_ODD_MARK = re.compile(r"[*_~`|^\\]")
"""Marks that no written word has within it, as `e-mail` has its hyphen."""
_BROKEN = re.compile(r"(?<![^\W\d_])(?P<before>[^\W\d_]{1,20})-?\r?\n(?P<after>[^\W\d_]{1,20})")
_SIGN = re.compile(r"[\W\d_]+")
_LEET = re.compile(
    r"(?<![\w@$!|+])(?=[@$!|+\d]{0,12}[A-Za-z])(?=[A-Za-z]{0,12}[@$!|+\d])[\w@$!|+]{2,24}(?![\w@$|+])", re.ASCII
)
_DIGITS = tuple(str.maketrans("01345789@$!|+", f"o{one}eastbgasi{other}t") for one, other in ("il", "li"))
_WHOLE_WORD = 5
"""Letters from which one word alone shows that it was masked."""
_FEW_WORDS = 3


def _divided(word: str) -> str:
    """Return the known words of which a word without blanks consists, at least three; else the word."""
    known = known_words()
    parts = _CAPITAL.split(word)
    if len(parts) >= _FEW_WORDS and sum(part.lower() in known for part in parts) * 2 > len(parts):
        return " ".join(parts)
    fewest: list[list[str] | None] = [[], *[None] * len(word)]
    for end in range(1, len(word) + 1):
        for start in range(max(0, end - _LONGEST_WORD), end):
            before, last = fewest[start], word[start:end]
            if before is not None and last.lower() in known and len(before) + 1 < len(fewest[end] or word):
                fewest[end] = [*before, last]
    parts = fewest[-1] or []
    return " ".join(parts) if len(parts) >= _FEW_WORDS else word


def _mended(found: re.Match[str]) -> str | None:
    """Return a word that a line's end breaks, unless both halves are words."""
    whole, known = found["before"] + found["after"], known_words()
    is_broken = whole.lower() in known and not {found["before"].lower(), found["after"].lower()} <= known
    return whole if is_broken else None


def _unmarked(found: re.Match[str]) -> str | None:
    """Return a known word without the marks in it."""
    whole = _SIGN.sub("", found[0])
    return whole if whole.lower() in known_words() and len(whole) >= _WHOLE_WORD else None


def _parted(found: re.Match[str]) -> str | None:
    """Return known words that signs join, with blanks for the signs."""
    parts = list(filter(None, _SIGN.split(found[0])))
    is_words = len(parts) >= _FEW_WORDS and sum(part.lower() in known_words() for part in parts) * 2 > len(parts)
    blank = _SIGN.sub(lambda sign: sign[0].replace("_", " ") if "_" in sign[0] else " ", found[0])
    return blank if is_words and "//" not in found[0] else None


def _spelled(found: re.Match[str]) -> str:
    readings = [found[0].translate(digits) for digits in _DIGITS]
    return next((one for one in readings if one.lower() in known_words()), readings[0])


_WORDS = (
    Decoder("masked", _BROKEN, _mended),
    Decoder("joined", _GLUED, lambda found: _divided(found[0])),
    Decoder("masked", _JOINED, lambda found: _unmarked(found) if _ODD_MARK.search(found[0]) else None),
    Decoder("joined", _JOINED, lambda found: _unmarked(found) or _parted(found)),
    Decoder(
        "masked",
        _LEET,
        _spelled,
        lambda found: any(len(word) >= _WHOLE_WORD and word.lower() in known_words() for _, word in found),
    ),
)
"""Words that marks divide, digits spell or signs join, where this makes them known words; the first may end a line."""

_CIPHERED = 12
"""Letters of known words in a paragraph, read by one cipher, from which the paragraph is in it."""
_SHORTEST_WORD = 4
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_PARAGRAPH = re.compile(r"\S(?:.|\n(?!\s*\n))*")


def _ciphered(text: str) -> Iterator[Piece]:
    """Yield the paragraphs in which letters are shifted or mirrored in the alphabet, or words stand backwards."""
    for paragraph in _PARAGRAPH.finditer(text):
        votes: Counter[str] = Counter()
        for word in set(_WORD.findall(paragraph[0].lower())):
            votes.update(dict.fromkeys(_enciphered().get(word, ()), len(word)))
        if votes and (best := votes.most_common(1)[0])[1] >= _CIPHERED:
            yield Piece(*paragraph.span(), _deciphered(paragraph[0], best[0]), "encoded")


def _deciphered(text: str, alphabet: str) -> str:
    """Return a text whose `_ALPHABET` is `alphabet`; an empty one stands for letters in the opposite order."""
    if alphabet:
        return text.translate(str.maketrans(alphabet + alphabet.upper(), _ALPHABET + _ALPHABET.upper()))
    return f"{text[::-1]}\n{_WORD.sub(lambda word: word[0][::-1], text)}"


@cache
def _enciphered() -> dict[str, set[str]]:
    """Return every known word in every cipher, with the alphabets in which it is written so."""
    alphabets = ["", *(_ALPHABET[by:] + _ALPHABET[:by] for by in range(1, 26)), _ALPHABET[::-1]]
    known = {word for word in known_words() if word.isascii() and len(word) >= _SHORTEST_WORD}
    found: dict[str, set[str]] = {}
    for alphabet in alphabets:
        table = str.maketrans(_ALPHABET, alphabet) if alphabet else {}
        for word in known:
            found.setdefault(word.translate(table) if alphabet else word[::-1], set()).add(alphabet)
    return {word: alphabets for word, alphabets in found.items() if word not in known}
