"""Source code is chunked by symbol, line for line as it stands in the file."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from datetime import UTC, datetime
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from sluice.contracts.document import Chunk, Document, Provenance
from sluice.ingest.chunk.chunk import chunk_document
from sluice.ingest.chunk.code import Symbol, symbols_of
from sluice.ingest.embed.tokens import count_tokens, load_tokenizer
from sluice.ingest.extract.extract import extract_document
from sluice.ingest.settings import ChunkSettings
from sluice.text.grammar import parse
from tests.support.repository import REPOSITORY

SOURCE = Provenance(source="file", fetched_at=datetime(2024, 1, 1, tzinfo=UTC))
ONE_EACH = ChunkSettings(code_pack_tokens=0)


@lru_cache(maxsize=1)
def tokenizer() -> Tokenizer:
    return load_tokenizer(None)


def chunks_of(source: str, path: str = "src/a.py", limits: ChunkSettings = ONE_EACH) -> tuple[Chunk, ...]:
    document = Document(id="f", media_type="text/plain", provenance=SOURCE, text=source, file_path=path)
    return chunk_document(document, extract_document(document), limits, tokenizer()).chunks


def function(name: str, lines: int, indent: str = "") -> str:
    body = "".join(f"{indent}    value_{number} = compute({number}, other={number})\n" for number in range(lines))
    return f"{indent}def {name}(argument):\n{body}{indent}    return argument\n"


def symbols_in(source: str, language: str) -> list[Symbol]:
    tree = parse(language, source.encode())
    assert tree is not None
    return list(symbols_of(tree.root_node))


def assert_faithful(source: str, chunks: tuple[Chunk, ...], limits: ChunkSettings) -> None:
    """Every line is in exactly one chunk, unchanged; every chunk is within the limit."""
    lines = source.split("\n")
    next_line = 1
    for chunk in chunks:
        assert not "".join(lines[next_line - 1 : chunk.start_line - 1]).strip()
        assert chunk.text == "\n".join(lines[chunk.start_line - 1 : chunk.end_line]).rstrip()
        assert count_tokens(chunk.text, tokenizer()) <= limits.max_tokens
        next_line = chunk.end_line + 1
    assert not "".join(lines[next_line - 1 :]).strip()


def test_functions_and_methods_are_chunks_with_their_paths() -> None:
    source = f"import os\n\n\n{function('top', 6)}\n\nclass Shop:\n    '''Sells.'''\n\n" + "\n".join(
        function(name, 6, "    ") for name in ("buy", "sell")
    )
    chunks = chunks_of(source)
    assert [chunk.symbol_path for chunk in chunks] == ["top", "Shop.buy", "Shop.sell"]
    assert {chunk.language for chunk in chunks} == {"python"}
    assert_faithful(source, chunks, ONE_EACH)


def test_decorators_and_comments_above_belong_to_the_symbol() -> None:
    source = f"A = {list(range(40))}\n\n\n# Explains it.\n@decorated\n@twice(1)\n{function('f', 5)}"
    assert chunks_of(source)[-1].text.startswith("# Explains it.\n@decorated")


def test_a_comment_after_code_or_apart_is_not_attached() -> None:
    source = f"A = {list(range(40))}  # about A\ndef f(): return 1\n# apart\n\ndef g(): return 2\n"
    assert [(symbol.path, symbol.first) for symbol in symbols_in(source, "python")] == [("f", 1), ("g", 4)]


def test_small_neighbours_share_a_chunk_and_a_whole_class_goes_by_its_name() -> None:
    source = "class P:\n    def x(self): return 1\n    def y(self): return 2\n\ndef f(): return P\n"
    (chunk,) = chunks_of(source, limits=ChunkSettings())
    assert chunk.symbol_path == "P, f"


def test_a_comment_apart_is_no_chunk_of_its_own_above_a_function_that_is_split() -> None:
    source = f"# -- what is large\n\n\n{function('big', 120)}"
    chunks = chunks_of(source)
    assert chunks[0].text.startswith("# -- what is large")
    assert "def big" in chunks[0].text
    assert chunks[0].symbol_path == "big"
    assert_faithful(source, chunks, ONE_EACH)


def test_a_large_function_is_split_with_its_lines_kept() -> None:
    source = function("big", 120)
    chunks = chunks_of(source)
    assert len(chunks) > 5
    assert {chunk.symbol_path for chunk in chunks} == {"big"}
    assert_faithful(source, chunks, ONE_EACH)


@pytest.mark.parametrize(
    ("language", "source", "expected"),
    [
        ("javascript", "export class A {\n m() {}\n f = () => 2\n}\nexport const g = (x) => x\n", "A A.m A.f g"),
        ("javascript", "module.exports.z = function () {}\nfunction* h() {}\n", "z h"),
        ("typescript", "interface I {}\nabstract class B<T> {\n m(): void {}\n}\ntype X = string\n", "I B B.m X"),
        ("tsx", "export default function App() { return <a/> }\n", "App"),
        ("go", "package p\ntype F struct{}\nfunc (f *F) Bar() {}\nfunc Baz[T any]() {}\n", "F F.Bar Baz"),
        ("rust", "struct S;\nimpl<T> S<T> {\n fn new() {}\n}\nmod m {\n fn i() {}\n}\n", "S S S.new m m.i"),
        ("java", "class C {\n C() {}\n int m() { return 1; }\n}\nenum E { A }\n", "C C.C C.m E"),
        ("c", "#ifndef H\nstruct P { int x; };\nstatic int *add(int a) { return 0; }\n#endif\n", "P add"),
        ("cpp", "namespace n {\nclass V {\n int s() { return 1; }\n};\n}\nint n::V<T>::o() {}\n", "n n.V n.V.s n.V.o"),
    ],
)
def test_symbols_of_each_grammar(language: str, source: str, expected: str) -> None:
    assert [symbol.path for symbol in symbols_in(source, language)] == expected.split()


def test_what_does_not_parse_is_split_by_lines() -> None:
    source = "}}} ((( not python at all\n" * 120
    chunks = chunks_of(source)
    assert len(chunks) > 1
    assert_faithful(source, chunks, ONE_EACH)


def test_a_language_without_grammar_is_split_by_lines() -> None:
    source = "".join(f"key_{number}: value {number}\n" for number in range(300))
    chunks = chunks_of(source, "conf/a.yaml")
    assert {chunk.language for chunk in chunks} == {"yaml"}
    assert_faithful(source, chunks, ONE_EACH)


def test_real_modules_are_kept_line_for_line() -> None:
    for module in (ast, json.decoder, json.encoder):
        assert module.__file__
        with open(module.__file__, encoding="utf-8") as file:
            source = file.read()
        assert_faithful(source, chunks_of(source, limits=ChunkSettings()), ChunkSettings())


def test_windows_line_ends_and_form_feeds_are_kept() -> None:
    source = "def f():\r\n    return 1\r\n\x0c\r\ndef g():\r\n    return 2\r\n"
    chunks = chunks_of(source)
    assert "def f():\r\n    return 1" in chunks[0].text
    assert chunks[-1].end_line == 5


PIECES = st.sampled_from(
    [
        "def f():\n    return 1\n",
        "class C:\n    def m(self):\n        pass\n\n    x = 1\n",
        "# comment\n",
        "\n",
        "x = [1, 2, 3]\n",
        "@decorator\n",
        "if (",
        "    indented = True\n",
        "'''doc\nstring'''\n",
        "long_name_of_a_variable = 'and a long value' " * 12 + "\n",
        function("g", 30),
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join), st.sampled_from([0, 80]), st.sampled_from(["a.py", "a.js", "a.sql"]))
def test_any_source_is_kept_line_for_line(source: str, pack_tokens: int, path: str) -> None:
    limits = ChunkSettings(code_pack_tokens=pack_tokens)
    assert_faithful(source, chunks_of(source, path, limits), limits)


@pytest.mark.slow
def test_hostile_sources_are_chunked_whole_within_bounds_of_time_and_memory() -> None:
    command = [sys.executable, "-m", "tests.support.hostile_sources"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "all are whole\n"), done.stderr


def test_a_minified_line_is_cut_within_the_limit() -> None:
    source = "var a=1;" * 2_000
    chunks = chunks_of(source, "a.min.js")
    assert {(chunk.start_line, chunk.end_line) for chunk in chunks} == {(1, 1)}
    assert all(count_tokens(chunk.text, tokenizer()) <= ONE_EACH.max_tokens for chunk in chunks)
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == source.replace(" ", "")
