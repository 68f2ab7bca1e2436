"""When a page may no longer be in the index: it asks for that itself, or its site says that it is gone.

Promises: only two addresses are spoken of, the one that was asked for and the one whose response said so. What a page
says of other addresses counts for none of them: not the address that its scripts show, and not the one that it names as
canonical. A script may also lead the browser elsewhere; then the second address counts only within the origin that was
asked. What is no answer about the page withdraws nothing: a robots.txt that forbids to look, a status of 500 or more, a
site that does not answer, one that asks for a password.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.contracts.document import document_id_for, snippet_id_for
from sluice.contracts.errors import NotFound, PolicyRefused
from sluice.contracts.ingest import WithdrawnBy
from sluice.ingest.url import origin_of

GONE: dict[int, WithdrawnBy] = {404: "not_found", 410: "gone"}
"""The statuses that say so of a page (RFC 9110, 15.5.5 and 15.5.11)."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Why a page may not be in the index, and the addresses that this was said of."""

    by: WithdrawnBy
    addresses: tuple[str, ...]

    @property
    def document_ids(self) -> tuple[str, ...]:
        """Of the documents that were made of the page at those addresses, and of what searches showed of it."""
        pages = map(document_id_for, self.addresses)
        return (*pages, *map(snippet_id_for, self.addresses))


class NoIndex(PolicyRefused):
    """Rule `noindex`: the page asks not to be indexed. `withdrawal` says which."""

    def __init__(self, url: str, final_url: str, *, rendered: bool = False) -> None:
        super().__init__("noindex", f"{final_url} asks not to be indexed", "the site's owner")
        self.withdrawal = Withdrawal("noindex", _addresses(url, final_url, rendered=rendered))


class PageGone(NotFound):
    """The site answers 404 or 410. `withdrawal` says for which page."""

    def __init__(self, url: str, final_url: str, status: int, *, rendered: bool = False) -> None:
        super().__init__(f"{final_url} answers {status}")
        self.withdrawal = Withdrawal(GONE[status], _addresses(url, final_url, rendered=rendered))


def withdrawal_in(error: BaseException) -> Withdrawal | None:
    """What the error says of a page that may no longer be in the index, where it is such an error."""
    return error.withdrawal if isinstance(error, (NoIndex, PageGone)) else None


def _addresses(url: str, final_url: str, *, rendered: bool) -> tuple[str, ...]:
    is_theirs = not rendered or origin_of(final_url) == origin_of(url)
    return tuple(dict.fromkeys((url, final_url) if is_theirs else (url,)))
