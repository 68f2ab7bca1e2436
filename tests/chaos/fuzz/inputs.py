"""Inputs that nobody would write by hand, and that somebody will send: made of the words that each format knows."""

from __future__ import annotations

import io
import json
import zlib
from functools import cache

from hypothesis import strategies as st
from pypdf import PdfWriter

_URL_PIECES = (
    "http", "https", "ftp", "file", "data", "javascript", ":", "/", "//", "\\", "?", "#", "@", "[", "]", "%", "%2e",
    "%00", "%C3%28", ".", "..", "...", "%2e%2e", "127.0.0.1", "0x7f", "0177", "2130706433", "[::1]", "[::ffff:7f00:1]",
    "example.org", "EXAMPLE.org.", "xn--", "xn--a", "ⓔⓧ", "faß", "日本", "\u200d", "\u00ad", "\ufeff", "\u202e", "\ud800",
    ":80", ":0", ":99999", ":a", "user:pass@", "\t", "\n", "\r", " ", "\0", "|", "^", "`", "<", ">", "{", "}", "'", '"',
    ";jsessionid=" + "A1" * 16, "?sid=" + "9f" * 16, "&utm_source=x", "PHPSESSID=", "a=1&a=2&b=&=c&&", "/a/b/a/b/a/b",
    "/2026/01/02/", "?month=13&year=1", "a" * 300, "é", "%E9", "+", "%20", "~", "!", "$", "&", "(", ")", "*", ",", "=",
)  # fmt: skip
urls = st.one_of(
    st.lists(st.one_of(st.sampled_from(_URL_PIECES), st.text(max_size=4)), max_size=14).map("".join),
    st.lists(st.sampled_from(_URL_PIECES), max_size=10).map(lambda pieces: "http://" + "".join(pieces)),
    st.lists(st.sampled_from(_URL_PIECES), max_size=12).map(lambda pieces: "http://example.org/" + "".join(pieces)),
    st.text(max_size=80),
)
"""Text where an address should be."""

_ROBOTS_PIECES = (
    b"User-agent", b"user-agent", b"Useragent", b"User agent", b"Disallow", b"Dissallow", b"Allow", b"Crawl-delay",
    b"Sitemap", b"Site-map", b"Host", b":", b" : ", b" ", b"\t", b"*", b"SluiceBot", b"Sluice", b"*bot*", b"/", b"$", b"#",
    b"/a", b"*a", b"a*a*a*", b"%", b"%2F", b"%2f", b"%zz", b"%C3%A9", b"\xc3\xa9", b"\xff", b"\xef\xbb\xbf", b"\0",
    b"1e999", b"-1", b"nan", b"inf", b"0.5", b"9" * 400, b"http://example.org/sitemap.xml", b"//", b"?q=*&", b"A" * 2_000,
)  # fmt: skip
_robots_line = st.lists(st.one_of(st.sampled_from(_ROBOTS_PIECES), st.binary(max_size=6)), max_size=8).map(b"".join)
_robots_rule = st.tuples(
    st.sampled_from((b"Allow: ", b"Disallow: ", b"User-agent: ", b"Crawl-delay: ")),
    st.lists(st.sampled_from(_ROBOTS_PIECES), max_size=6).map(b"".join),
).map(b"".join)
robots = st.lists(st.one_of(_robots_rule, _robots_line), max_size=40).flatmap(
    lambda lines: st.sampled_from((b"\n", b"\r\n", b"\r", b"\n\n")).map(lambda end: end.join(lines))
)
"""What stands where a robots.txt should."""

_TAGS = (
    "html", "head", "body", "main", "article", "nav", "div", "p", "span", "a", "b", "h1", "h2", "h6", "ul", "ol", "li", "dl",
    "dt", "dd", "table", "thead", "tr", "td", "th", "caption", "pre", "code", "blockquote", "img", "br", "hr", "script",
    "style", "noscript", "template", "iframe", "svg", "math", "annotation", "details", "summary", "form", "button",
    "select", "option", "textarea", "title", "meta", "link", "base", "section", "aside", "footer", "figure", "sub", "sup",
    "ruby", "rt", "object", "plaintext", "xmp", "listing", "frameset", "a:b", "1", "x-y",
)  # fmt: skip
_ATTRIBUTES = (
    'class="hidden"', 'style="display:none"', "style='color:#fff;background:white'", 'style="d\\69splay:none"', "hidden",
    'aria-hidden="true"', 'href="/a?b=c"', "href='javascript:1'", 'href="//["', 'lang="de"', 'charset="utf-8"',
    'http-equiv="refresh" content="0;url=/"', 'name="robots" content="noindex"', 'property="og:title" content="x"',
    'rel="canonical" href="http://example.org/"', 'type="application/ld+json"', 'colspan="99999"', 'rowspan="-1"',
    'class="language-python"', 'id="x" id="y"', "=", '"', "a" * 400, 'start="999999999999"', "xml:lang=en", "style=\"font:0/0 a\"",
)  # fmt: skip
_TEXTS = (
    "Words that stand for a sentence of a page. ", "&amp;", "&#0;", "&#x110000;", "&lt", "&notanentity;", "&#xD800;", "<!--",
    "-->", "<!-- x --!>", "<![CDATA[", "]]>", "<?php", "<!doctype html>", "\0", "\u200b", "\u202e", "\U000e0041", "\ufeff",
    "```", "|", "# ", "* ", "[a](b)", "$x$", "\\", "\r", "\t", "é", "日本語 ", "\ud83d", '{"@type":"Article"}', "{", "}}",
    ".a{display:none}", "@media print{p{color:red}}", "p{color:rgb(1,2", "</", "<", ">", "  \n ", "1. ", "http://a.b/ ",
)  # fmt: skip
_tag = st.tuples(
    st.sampled_from(("<", "</", "<", "<")),
    st.sampled_from(_TAGS),
    st.lists(st.sampled_from(_ATTRIBUTES), max_size=3).map(lambda found: "".join(" " + one for one in found)),
    st.sampled_from((">", ">", ">", "/>", "")),
).map("".join)
_piece = st.one_of(_tag, _tag, st.sampled_from(_TEXTS), st.text(max_size=12))
_soup = st.lists(_piece, max_size=60).map("".join)
html = st.one_of(
    _soup,
    _soup.map(
        lambda text: f"<html><head><title>T</title></head><body><main><h1>A</h1><p>Words.</p>{text}</main></body>"
    ),
    st.tuples(_piece, st.integers(2, 3_000)).map(lambda pair: pair[0] * pair[1]),
    st.tuples(_piece, _piece, st.integers(2, 1_500)).map(lambda parts: (parts[0] + parts[1]) * parts[2]),
    st.tuples(_tag, st.integers(2, 3_000), _soup).map(lambda parts: parts[0] * parts[1] + parts[2]),
).map(lambda text: text.encode("utf-8", "surrogatepass"))
"""What a server calls a page."""

_PDF_WORDS = (
    b"/Length", b"/Filter", b"/FlateDecode", b"/LZWDecode", b"/ASCII85Decode", b"/ASCIIHexDecode", b"/RunLengthDecode",
    b"/DCTDecode", b"/Crypt", b"/DecodeParms", b"/Predictor 15 /Columns 99999999", b"/Kids", b"/Parent", b"/Count", b"/Type",
    b"/Pages", b"/Page", b"/Catalog", b"/Encrypt", b"/ToUnicode", b"/Encoding", b"/Differences", b"/Font", b"/Contents",
    b"/XObject", b"/ObjStm", b"/XRef", b"/Prev 0", b"/Prev 9", b"/Size 999999999", b"/Root 1 0 R", b"/Info", b"/Resources",
    b"1 0 R", b"2 0 R", b"3 0 R", b"99 0 R", b"0 0 R", b"obj", b"endobj", b"stream", b"endstream", b"xref", b"trailer",
    b"startxref", b"%%EOF", b"[", b"]", b"<<", b">>", b"(", b")", b"<", b">", b"-1", b"99999999999999999999", b"1e9", b"null",
    b"true", b"\0", b"BT", b"ET", b"Tj", b"TJ", b"Tf", b"Tm", b"Do", b"q", b"Q", b"beginbfrange <00> <ffff> <0000>",
    b"/CIDInit", b"begincmap", b"/W [0 [1]]", b"D:99999999999999", b"\xfe\xff\xd8\x00",
)  # fmt: skip


@cache
def _pdfs() -> tuple[bytes, ...]:
    """Files to start from: one with text by hand, one that pypdf wrote, one with its stream packed."""
    writer = PdfWriter()
    for _ in range(3):
        writer.add_blank_page(200, 200)
    writer.add_metadata({"/Title": "A title", "/Author": "Somebody", "/CreationDate": "D:20260102030405+01'00'"})
    written = io.BytesIO()
    writer.write(written)
    text = b"BT /F1 12 Tf 72 720 Td (Words that stand for a page.) Tj T* [(more) -200 (words)] TJ ET"
    return _by_hand(text, b""), _by_hand(zlib.compress(text), b"/Filter /FlateDecode"), written.getvalue()


def _by_hand(stream: bytes, filters: bytes) -> bytes:
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(stream), filters, stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    body, offsets = b"%PDF-1.7\n", []
    for number, one in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    start = len(body)
    body += b"xref\n0 6\n0000000000 65535 f \n" + table + b"trailer\n<< /Size 6 /Root 1 0 R >>\n"
    return body + b"startxref\n%d\n%%%%EOF\n" % start


def _mutated(file: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    """`file` after changes: each at a place (a share of the length), over so many bytes, with what stands there then."""
    for share, length, replacement in changes:
        at = int(share * len(file))
        file = file[:at] + replacement + file[at + length :]
    return file


_change = st.tuples(
    st.floats(0, 1, exclude_max=True), st.integers(0, 40), st.one_of(st.sampled_from(_PDF_WORDS), st.binary(max_size=8))
)
pdfs = st.one_of(
    st.tuples(st.sampled_from((0, 1, 2)), st.lists(_change, max_size=12)).map(
        lambda made: _mutated(_pdfs()[made[0]], made[1])
    ),
    st.lists(st.one_of(st.sampled_from(_PDF_WORDS), st.binary(max_size=10)), max_size=60).map(
        lambda words: _by_hand(b" ".join(words), b"")
    ),
)
"""Files that begin as a PDF."""

_VALUES = st.sampled_from(
    (
        "0",
        "1e5799",
        "-1e999",
        "none",
        "calc(1px*1e308)",
        "#1e5799",
        "rgb(1,2",
        "var(--a)",
        "url(",
        "100%",
        "'a'",
        "NaN",
        "",
    )
)
_SELECTORS = (
    "p",
    ":has(",
    ":not(",
    ":nth-child(2n+1)",
    "*",
    ">",
    "~",
    ")",
    ".a",
    "#b",
    "[a=b]",
    "::before",
    ",",
    " ",
    ":is(",
)
_rule = st.tuples(
    st.lists(st.sampled_from(_SELECTORS), min_size=1, max_size=8).map("".join),
    st.sampled_from(("display", "opacity", "width", "filter", "transform", "--a", "color", "clip", "font")),
    _VALUES,
).map(lambda parts: f"{parts[0]}{{{parts[1]}:{parts[2]}}}")
styled = st.tuples(st.lists(_rule, max_size=20).map("".join), st.integers(1, 60), _soup).map(
    lambda parts: f"<style>{parts[0] * parts[1]}</style>{parts[2] * 20}".encode("utf-8", "surrogatepass")
)
"""Pages whose style sheets are odd, and repeated."""

_leaf = st.one_of(st.none(), st.floats(), st.integers(), st.text(max_size=20), st.just(10**400), st.just("x" * 3_000))
_value = st.recursive(
    _leaf, lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(st.text(max_size=4), inner, max_size=6))
)
jsons = st.one_of(
    _value.map(lambda value: json.dumps([value] * 30)),
    st.tuples(
        st.integers(1, 900), st.sampled_from(("0,", "[],", '"\\ud800",', "{},", "1e999,")), st.integers(1, 60_000)
    ).map(lambda made: "[" * made[0] + made[1] * made[2] + "0" + "]" * made[0]),
    st.lists(st.sampled_from(("[", "{", "]", "}", '"', ",", ":", "1", "\\", "NaN")), max_size=900).map("".join),
).map(lambda text: text.encode("utf-8", "surrogatepass"))
"""JSON, deep, long and broken."""

_MARKS = (
    "# ", "\n", "\n\n", "> ", "- ", "1. ", "```", "`", "[a](b)", "[a]: b \"c\"\n", "![a](b)", "|", "|-|\n", "***", "_", "<!--", "-->",
    "<div hidden>", "</div>", "---\n", "title: a\n", "\t", "    ", "\\", "a b ", "é", "\u200b", "===\n", "~~~", "<p style=\"",
)  # fmt: skip
markdowns = st.tuples(
    st.lists(st.sampled_from(_MARKS), max_size=40).map("".join), st.sampled_from((1, 1, 3, 50, 4_000))
).map(lambda parts: (parts[0] * parts[1])[:600_000].encode())
"""Markdown, whose pieces are repeated."""
