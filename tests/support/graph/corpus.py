"""A tiny corpus for tests of the graph: a shop in Python, its tests, its documentation, and a report of a test run."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.contracts.document import document_id_for
from sluice.contracts.graph.model import GraphDocument

FILES: Mapping[str, str] = {
    "shop/__init__.py": '"""A shop."""\n\nfrom shop.cart import Cart\n',
    "shop/base.py": "class Stored:\n    def save(self) -> None:\n        self.saved = True\n",
    "shop/cart.py": (
        "from shop.base import Stored\n"
        "\n"
        "LIMIT = 100\n"
        "\n"
        "\n"
        "class Cart(Stored):\n"
        "    def add(self, item: str) -> None:\n"
        "        self.items = [item]\n"
        "        self.save()\n"
        "\n"
        "\n"
        "def total(cart: Cart) -> int:\n"
        "    return min(LIMIT, len(cart.items))\n"
    ),
    "shop/checkout.py": (
        "from shop import Cart\n"
        "from shop.cart import total\n"
        "\n"
        "\n"
        "def pay(cart: Cart, purse) -> int:\n"
        "    purse.save()\n"
        "    return total(cart)\n"
    ),
    "tests/test_checkout.py": (
        "from shop.cart import Cart\n"
        "from shop.checkout import pay\n"
        "\n"
        "\n"
        "def test_pay() -> None:\n"
        "    assert pay(Cart(), None) == 0\n"
    ),
    "docs/checkout.md": (
        "# Checkout\n"
        "\n"
        "`shop.checkout.pay` takes a [cart](cart.md). What is due is `total()`.\n"
        "See `shop/checkout.py` and https://example.org/payments#cards.\n"
    ),
    "docs/cart.md": "# Cart\n\nA `Cart` holds items. Back to [checkout](checkout.md#checkout).\n",
    "report.txt": "FAILED tests/test_checkout.py::test_pay - AssertionError: assert 1 == 0\n",
}
"""Text of each file by its path."""
_LANGUAGES = {"py": "python", "js": "javascript", "ts": "typescript", "go": "go", "rs": "rust", "java": "java"}


def graph_document(
    path: str, text: str | None = None, *, document_id: str = "", url: str | None = None
) -> GraphDocument:
    """A file as the graph reads it; one of `FILES` where no text is given."""
    return GraphDocument(
        document_id=document_id or document_id_for(path),
        path=path,
        url=url,
        title=path.rsplit("/", 1)[-1],
        language=_LANGUAGES.get(path.rsplit(".", 1)[-1]),
        text=FILES[path] if text is None else text,
        metadata={},
    )
