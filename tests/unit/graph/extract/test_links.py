"""Where documents link to, in Markdown and in reStructuredText."""

from __future__ import annotations

import pytest

from sluice.contracts.document import PageLink
from sluice.contracts.graph.model import Edge, EdgeType, GraphDocument, Origin
from sluice.graph.extract.extract import extract_edges

MARKDOWN = """---
title: "[not](frontmatter.md)"
---
# Cart

See [how to pay](../pay/how.md#cards), [the site][site] and <https://shop.example/help>.
![a picture](cart.png) and [![badge](b.svg)](status.md)
Mail [us](mailto:us@shop.example) or [jump](#end), plain https://shop.example/plain?x=1).

| [in a table](table.md) |
|---|
| <a href="html.md">x</a> |

```
[in code](no.md)
```
`[in a code span](no.md)`

[site]: https://shop.example/a%20b?q=1#part
"""


def document(text: str, path: str | None = "main/docs/cart.md", url: str | None = None) -> GraphDocument:
    return GraphDocument("d1", path, url, None, "en", text, {})


def links(text: str, path: str | None = "main/docs/cart.md", url: str | None = None) -> dict[str, Edge]:
    edges = extract_edges(document(text, path, url))
    return {edge.target.key: edge for edge in edges if edge.type is EdgeType.LINKS_TO and edge.origin is Origin.LINK}


def test_markdown_links_are_found_with_their_words_and_lines_and_code_and_pictures_are_not() -> None:
    found = links(MARKDOWN)
    assert {key: (edge.lines, edge.detail) for key, edge in found.items()} == {
        "path:main/pay/how.md": ((6,), "how to pay"),
        "https://shop.example/a%20b?q=1": ((6,), "the site"),
        "https://shop.example/help": ((6,), "https://shop.example/help"),
        "path:main/docs/status.md": ((7,), ""),
        "https://shop.example/plain?x=1": ((8,), ""),
        "path:main/docs/table.md": ((10,), "in a table"),
        "path:main/docs/html.md": ((12,), ""),
    }


@pytest.mark.parametrize(
    ("address", "leads_to"),
    [
        ("other.md", "path:main/docs/other.md"),
        ("./a/../other.md?x=1", "path:main/docs/other.md"),
        ("/guide/start.md", "path:guide/start.md"),
        ("/start.md", "path:main/start.md"),
        ("my%20file.md", "path:main/docs/my file.md"),
        ("//shop.example/x", "https://shop.example/x"),
        ("HTTPS://Shop.Example/x#y", "https://shop.example/x"),
    ],
)
def test_a_link_leads_to_the_path_or_the_address_that_it_means(address: str, leads_to: str) -> None:
    assert set(links(f"[x](<{address}>)")) == {leads_to}


@pytest.mark.parametrize("address", ["cart.md", "../../../outside.md", "javascript:alert(1)", "http://[", "#part"])
def test_a_link_out_of_what_is_read_or_to_itself_leads_nowhere(address: str) -> None:
    assert links(f"[x](<{address}>)") == {}


def test_links_of_a_web_page_are_resolved_against_its_address() -> None:
    assert set(links("[x](../y?z=1#w)", None, "https://shop.example/a/b/c")) == {"https://shop.example/a/y?z=1"}


RESTRUCTURED = """
.. _carts:

Carts
=====

See :doc:`how to pay </pay/how>`, :doc:`intro`, :ref:`Totals <totals>`,
`the site <https://shop.example/>`__, `named`_ and site_.

.. toctree::
   :maxdepth: 2

   start
   The end <end/index>

.. literalinclude:: ../shop/cart.py

.. code-block:: python

   `no <https://no.example/>`_

.. _named: https://shop.example/named
.. _site: https://shop.example/site
"""


def test_restructured_links_labels_and_tables_of_contents_are_found() -> None:
    assert set(links(RESTRUCTURED, "main/docs/cart.rst")) == {
        "path:pay/how",
        "path:main/docs/intro",
        "label:totals",
        "https://shop.example/",
        "https://shop.example/named",
        "https://shop.example/site",
        "path:main/docs/start",
        "path:main/docs/end/index",
        "path:main/shop/cart.py",
    }
    owned = [edge for edge in extract_edges(document(RESTRUCTURED, "main/docs/cart.rst")) if edge.detail == "label"]
    assert [edge.source.key for edge in owned] == ["label:carts"]


def test_links_of_a_page_whose_text_holds_no_addresses_are_its_own() -> None:
    kept = (PageLink(3, "https://shop.example/a#b", "A"), PageLink(4, "mailto:x@shop.example", "B"))
    page = document("text", None, "https://shop.example/")._replace(links=kept)
    found = [edge for edge in extract_edges(page) if edge.type is EdgeType.LINKS_TO]
    assert [(edge.target.key, edge.lines, edge.detail) for edge in found] == [("https://shop.example/a", (3,), "A")]
