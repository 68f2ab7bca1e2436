"""reStructuredText shows as Markdown: names stay, what no reader sees goes, and lines keep their numbers."""

from __future__ import annotations

import time

import pytest

from sluice.text.restructured import is_restructured, read_restructured


def shown(text: str) -> list[str]:
    return [line for line in read_restructured(text).text.split("\n") if line]


SOURCE = """\
.. _shop-cart:

=====================
:mod:`shop` --- Carts
=====================

.. module:: shop.cart
   :synopsis: Carts.

.. Nobody sees this comment,
   nor its second line.

Use :func:`~shop.pay.pay` or `the site <https://shop.example/>`_; see |name|::

    # no heading
    pay(1)

Limits
------

.. class:: Cart(owner, *, most=3)

   A cart of one owner.

   .. method:: add(item)
               add(item, count)
      :no-index:

      Puts an item in.

      :param item: what is put in

      .. versionadded:: 3.2
         The second argument.

.. setting:: MOST_ITEMS

``MOST_ITEMS``
~~~~~~~~~~~~~~

* Default: ``9``
* as shown:

  .. code-block:: python

     MOST_ITEMS = 9

.. made-up:: --limit <number>

   Unknown directives keep their argument.

.. raw:: html

   <p>hidden</p>

.. |name| replace:: the manual
"""


def test_names_arguments_and_bodies_show_and_what_no_reader_sees_does_not() -> None:
    assert shown(SOURCE) == [
        "# shop --- Carts",
        "Use shop.pay.pay or the site; see the manual:",
        "```",
        "# no heading",
        "pay(1)",
        "```",
        "## Limits",
        "### `shop.cart.Cart(owner, *, most=3)`",
        "A cart of one owner.",
        "#### `shop.cart.Cart.add(item)`",
        "**`shop.cart.Cart.add(item, count)`**",
        "Puts an item in.",
        "param item: what is put in",
        "Added in version 3.2",
        "The second argument.",
        "### `MOST_ITEMS`",
        "* Default: `9`",
        "* as shown:",
        "  ```python",
        "  MOST_ITEMS = 9",
        "  ```",
        "#### --limit <number>",
        "Unknown directives keep their argument.",
    ]


def test_each_line_keeps_its_number() -> None:
    lines, read = SOURCE.split("\n"), read_restructured(SOURCE)
    for words in ("A cart of one owner.", "pay(1)", "MOST_ITEMS = 9", "The second argument."):
        numbers = [[n for n, line in enumerate(text) if words in line] for text in (lines, read.text.split("\n"))]
        assert numbers[0] == numbers[1] != []
    assert read.title == "shop --- Carts"


def test_links_labels_and_symbols_stand_beside_the_text() -> None:
    read = read_restructured(SOURCE)
    found = {(read.text[start:end], address) for start, end, address in read.links}
    assert {("shop.pay.pay", "symbol:python:shop.pay.pay"), ("the site", "https://shop.example/")} <= found
    assert ("", "target:shop-cart") in found
    assert ("", "symbol:python:shop.cart.Cart.add") in found


def test_terms_are_bold_and_stand_above_their_definitions() -> None:
    text = "Words\n=====\n\nroot\n    The superuser.\n\n``bin`` : a classifier\n    Old files.\n\nafter\n"
    assert shown(text) == ["# Words", "**root**", "The superuser.", "**`bin` : a classifier**", "Old files.", "after"]


def test_a_class_with_a_body_is_named_and_a_class_of_styles_is_not() -> None:
    assert shown(".. class:: c_int\n\n   A number.\n\n.. class:: handout\n\nWords.") == [
        "# `c_int`",
        "A number.",
        "Words.",
    ]


def test_a_text_is_known_by_its_directives_and_markdown_is_not() -> None:
    assert is_restructured(".. note:: x\n\nwords")
    assert is_restructured("words\n\n.. _label:\n\nTitle\n=====\n")
    assert not is_restructured("Title\n=====\n\nwords ... and more :: than that")
    assert not is_restructured("# Title\n\n```rst\n.. note:: x\n```\n")


@pytest.mark.parametrize(
    "text",
    [
        "`" * 200_000,
        ".. x:: y\n" * 20_000,
        "* " * 50_000,
        "::\n\n  a\n" * 10_000,
        "a.b_" * 50_000,
        ".. |a| replace:: " + "x" * 100 + "\n\n" + "|a| " * 20_000,
        "\n".join(" " * depth + ".. class:: Abc" for depth in range(600)),
        "",
        ".. x::",
        "::",
        "..",
        "=\n=\n=",
        "* ..",
    ],
)
def test_odd_texts_are_read_in_time_linear_in_them(text: str) -> None:
    begun = time.process_time()
    read = read_restructured(text)
    assert time.process_time() - begun < 3
    assert 0 <= read.text.count("\n") - text.count("\n") <= 1
