"""Of Markdown counts what a reader of the rendered page sees; every line keeps its number."""

from __future__ import annotations

from time import process_time

import pytest

from sluice.ingest.extract.extract import extract
from sluice.ingest.extract.extracted import Extracted


def read(source: str) -> Extracted:
    return extract(source.encode(), "text/markdown")


def test_text_between_two_rules_is_no_front_matter() -> None:
    assert read("---\nalpha\n---").text == "---\nalpha\n---"


@pytest.mark.parametrize("rule", ["---", "+++"])
def test_front_matter_gives_facts_and_no_text(rule: str) -> None:
    sign = ":" if rule == "---" else " ="
    found = read(f"{rule}\ntitle{sign} 'Guide'\nprompt{sign} SECRET\nlang{sign} de-AT\n{rule}\nText.")
    assert (found.text, found.title, found.language) == ("\n\n\n\n\nText.", "Guide", "de")


@pytest.mark.parametrize(
    "hidden",
    [
        "a <!-- SECRET --> b",
        "<!--\nSECRET\n\nSECRET\n-->",
        "<!-- never closed\n\nSECRET",
        "<div><!--\n\nSECRET\n\n--></div>",
        "<!-- a --\t> SECRET\n\nSECRET -->",
        '<p title="\n\nSECRET\n\n">after</p>',
        "[//]: # (SECRET)",
        '[x]: <> "SECRET"',
        "[x]: /SECRET 'SECRET\nSECRET'",
        '[open](/SECRET "SECRET")',
        "[open](/u 'one\nSECRET')",
        "[open][x]\n\n[x]: /SECRET\n  'SECRET'",
        "![SECRET](SECRET.png 'SECRET')",
        "![SECRET][x]\n\n[x]: /v.png",
        "<img alt='SECRET' title=SECRET>",
        "<a href='/SECRET' title='SECRET'>open</a>",
        "``` python SECRET\ncode\n```",
        "~~~py SECRET\ncode\n~~~",
        "[^1]: SECRET",
        "[^1]: SECRET\n    SECRET\n\n    SECRET",
        "a[^2]\n\n[^2]: seen\n[^1]: SECRET [^1]",
        "<!-- [^1] -->\n\n[^1]: SECRET",
        "| a |\n|---|\n| b | SECRET |",
        "<details><summary> &nbsp;</summary>\n\nSECRET\n\n</details>",
        "<details>\n\nSECRET\n\n</details>",
        "<details hidden><summary>SECRET</summary>\n\nSECRET\n\n</details>",
        "<style>.aside{display:none}</style>\n\n<p class=aside>SECRET</p>",
        "<style>b[data-x]{opacity:0}</style>\n\na <b data-x>SECRET</b>",
        "<style>h2{color:#fff}</style>\n\n## SECRET",
        "<div hidden>\n\nSECRET\n\n- SECRET\n\n> SECRET\n\n```\nSECRET\n```\n\n</div>",
        "a <span hidden>SECRET</span> b",
        "a <b style='display:none'>SECRET\n\nSECRET",
        "a <font color=white>SECRET</font>",
        "a <i class=sr-only>SECRET</i>",
        "a <x-y style='opacity:0'>SECRET</x-y>",
        "<p style='margin-left:-999px'>SECRET</p>",
        "<p style='text-align:center;font-size:0'>SECRET</p>",
        "<template>\n\nSECRET\n\n</template>",
        "<textarea></div>\n\nSECRET\n\n</textarea>",
        "<script>\nSECRET\n</script>",
        "<svg><text>SECRET</text></svg>",
        "<noscript>SECRET</noscript> <iframe>SECRET</iframe>",
        "<input type=hidden value=SECRET>",
        "<? SECRET ?> <!x SECRET> <![CDATA[SECRET]]>",
        "# Head <!-- SECRET -->",
        "- item\n\n  [x]: /u (SECRET)\n- <!-- SECRET -->",
    ],
)
def test_what_rendering_does_not_show_is_left_out(hidden: str) -> None:
    source = f"Before it.\n\n{hidden}\n"
    found = read(source)
    assert "SECRET" not in found.text
    assert found.text.startswith("Before it.\n")
    assert found.text.count("\n") == source.count("\n")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a **b** _c_ ~~d~~ `e`", "a **b** _c_ ~~d~~ `e`"),
        ("one\n  two  \nthree\\\nfour", "one\n  two\nthree\nfour"),
        ("Head\n====\n\n## Other ##", "Head\n====\n\n## Other"),
        ("1. a\n   - b\n\n     c\n> d\n> > e", "1. a\n   - b\n\n     c\n> d\n> > e"),
        ("|a|b|\n|-|:-:|\n|`x\\|y`|[d](/u)|", "| a | b |\n|-|:-:|\n| `x\\|y` | d |"),
        ("```py\n<!-- kept -->\n[x](/y 'kept')\n```", "```py\n<!-- kept -->\n[x](/y 'kept')\n```"),
        ("    <!-- kept -->", "    <!-- kept -->"),
        ("`<!-- kept -->` \\<b hidden> &lt;b>", "`<!-- kept -->` \\<b hidden> <b>"),
        ("A note[^1].\n\n[^1]: kept\n    kept too", "A note[^1].\n\n[^1]: kept\n    kept too"),
        ("<p align=center>\n  <b>Name</b><br>does &amp; is\n</p>", "\nName does & is\n"),
        ("<h1 align='center'>Name</h1>\n\nMore", "# Name\n\nMore"),
        ("<details>\n<summary>More</summary>\n\nkept\n\n</details>\n\nb", "\nMore\n\nkept\n\n\n\nb"),
        ("<b data-x='5 > 3 SECRET'>kept</b>", "kept"),
        ("<style>p{color:#333}</style>\n\nkept", "\n\nkept"),
        ("<details open>\n\nkept\n\n</details>", "\n\nkept\n\n"),
        ("Use <name> or <your name> here", "Use  or  here"),
        ("a `two\nlines` b\nc", "a `two lines`\n b\nc"),
        ("[a](/x 'one\ntwo') b\nc", "a\n b\nc"),
        ("a<sub>2</sub> <span style='font-weight:bold'>b</span>", "a2 b"),
        ("a <i class=term style='margin: 0 10%'>b</i>", "a b"),
        ("x\u200by &#8203;z&#10;w", "xy z w"),
    ],
)
def test_what_rendering_shows_stands_in_its_line(source: str, text: str) -> None:
    assert read(source).text == text


def test_links_keep_their_addresses_beside_the_text() -> None:
    found = read("See [the\nguide](../a.md#b) and [x].\n\n[x]: https://a.example/ 'T'\n")
    assert found.text == "See the\nguide and x.\n\n\n"
    assert [(found.text[one.start : one.end], one.url) for one in found.linked_words] == [
        ("the\nguide", "../a.md#b"),
        ("x", "https://a.example/"),
    ]
    assert "[x](https://a.example/)" in found.markdown()


def test_a_long_document_is_read_in_parts_as_it_is_in_one() -> None:
    part = "# Head\n\n- item [a](/u 'SECRET')\n- item\n\n```\n# code\n\n<!-- kept -->\n```\n\n<!-- SECRET\n\nSECRET -->\n\n"
    found = read(part * 2_000)
    assert "SECRET" not in found.text
    assert found.text == read(part).text * 2_000


@pytest.mark.parametrize(
    "piece", ["[a](b)", "[", "![", "<a ", "*a", "- [a](b)\n", "|x|y|\n", "> a\n", "`a``", "<!--", "&amp"]
)
def test_the_time_is_in_proportion_to_the_text(piece: str) -> None:
    begun = process_time()
    read(piece * (200_000 // len(piece)))
    assert process_time() - begun < 60
