"""Pages as the ledger remembers them.

Promises: `recall` gives a page only while the index holds what was read of it. A page is remembered when it was
fetched, and counts from the moment that the same run's document stands in the journal; it is forgotten with its
document, and when another reading of that document took its place. What is forgotten too early costs one more
reading, and what is forgotten too late would lose a page: in doubt it is forgotten. Of a page that was withdrawn from
the index it is kept why.

A row is written when a page was fetched, with the run that did so, and is *held* from the moment that this run's
document stands in the journal. Another run's document in that place takes the row away: what it says is no longer
what the index holds. A page that was withdrawn keeps its row, which no run holds, with the reason. Nothing here needs a
sync of its own: a row that a power cut takes along is a page read once more, and a removal's own commit, which
follows, makes the forgetting last.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import zstandard
from sqlalchemy import bindparam, case, delete, exists, func, select, tuple_, update

from sluice.contracts.ingest import PageLink, RememberedPage, WatchedPage, WithdrawnBy, WithdrawnPage
from sluice.ledger.database import Database
from sluice.ledger.schema.columns import moment
from sluice.ledger.schema.tables import AnyRow, pages
from sluice.ledger.trust.citations import citing_profiles

MAX_VALIDATOR_CHARACTERS = 1_000
"""Of an ETag or a date as a site sends it; a longer one is not sent back."""
MAX_LINKS_BYTES = 16_000_000
"""Of a page's links once decompressed: far more than `ingest.crawl.page_scan` finds in one."""
WATCHED_AT_ONCE = 1_000
"""Pages that one transaction reads of those that may be due."""
_KEPT = ("checksum", "watched_since", "changes")
"""What a page that is read anew goes on with."""
_ANEW = tuple(one.name for one in pages.c if not one.primary_key and one.name not in _KEPT)
NO_RUN = ""
"""Who has read a page that was withdrawn: no run that is still under way confirms it."""

_IS_IT = (pages.c.corpus == bindparam("of_corpus"), pages.c.url_sha256 == bindparam("of_url"))
_OF_DOCUMENT = (pages.c.corpus == bindparam("of_corpus"), pages.c.document_id == bindparam("of_document"))
_RECALL = select(pages).where(*_IS_IT, pages.c.is_held == 1, pages.c.read_as == bindparam("as_now"))
_SEEN_AT = (
    select(pages.c.document_id, func.max(pages.c.fetched_at).label("seen_at"))
    .where(*_OF_DOCUMENT, pages.c.is_held == 1)
    .group_by(pages.c.document_id)
)
_IS_BEFORE = (*_IS_IT, pages.c.fetched_at < bindparam("at"))
_TOLD_OF = update(pages).where(*_IS_BEFORE).values(fetched_at=bindparam("at"))
_SEEN = update(pages).where(*_IS_BEFORE).values(fetched_at=bindparam("at"), asked_at=bindparam("at"))
_IS_OF_RUN = pages.c.run_id == bindparam("of_run")
_IS_CHANGED = case((pages.c.checksum != bindparam("as_read"), 1), else_=0)
_CONFIRM = (
    update(pages)
    .where(*_OF_DOCUMENT, _IS_OF_RUN)
    .values(is_held=1, changes=pages.c.changes + _IS_CHANGED, checksum=bindparam("as_read"))
    .returning(pages.c.is_held)
)
_DROP_OTHERS = delete(pages).where(*_OF_DOCUMENT, ~_IS_OF_RUN).returning(pages.c.is_held)
_WITHDRAW = (
    update(pages)
    .where(*_OF_DOCUMENT, pages.c.fetched_at <= bindparam("at"))
    .values(is_held=0, run_id=NO_RUN, fetched_at=bindparam("at"), withdrawn_by=bindparam("why"))
    .returning(pages.c.is_held)
)
_WITHDRAWN = select(pages.c.withdrawn_by, pages.c.fetched_at).where(*_IS_IT, pages.c.withdrawn_by.is_not(None))
_LATER = pages.alias("later")
_IS_SEEN_LATER = exists().where(
    _LATER.c.corpus == pages.c.corpus,
    _LATER.c.document_id == pages.c.document_id,
    _LATER.c.is_held == 1,
    _LATER.c.fetched_at > pages.c.fetched_at,
)
_WATCHED = (
    select(
        *(pages.c.url_sha256, pages.c.final_url, pages.c.document_id, pages.c.changes, pages.c.fetched_at),
        func.coalesce(pages.c.asked_at, pages.c.fetched_at).label("asked_at"),
        func.coalesce(pages.c.watched_since, pages.c.fetched_at).label("watched_since"),
    )
    .where(
        pages.c.corpus == bindparam("of_corpus"),
        pages.c.is_held == 1,
        (bindparam("at") - pages.c.fetched_at) * (1 + pages.c.changes) >= bindparam("shortest"),
        tuple_(pages.c.fetched_at, pages.c.url_sha256) > tuple_(bindparam("after"), bindparam("after_url")),
        ~_IS_SEEN_LATER,
    )
    .order_by(pages.c.fetched_at, pages.c.url_sha256)
    .limit(WATCHED_AT_ONCE)
)
_FORGET = delete(pages).where(*_OF_DOCUMENT).returning(pages.c.is_held)


class PageMemory:
    """What was read of each page, by corpus and address. Safe across threads and forks, as its database is.

    Every method may be called twice, and raises Unavailable where the ledger does not answer.
    """

    def __init__(
        self, database: Database, *, read_as: str = "", is_there: Callable[[str], bool] = lambda corpus: True
    ) -> None:
        """`read_as` stands for all that decides what becomes of a page: pages read in another way are not recalled.

        `is_there` tells whether a corpus has a journal: of one whose files are gone nothing is recalled.
        """
        self._database = database
        self._read_as = read_as
        self._is_there = is_there

    def recall(self, corpus: str, url: str) -> RememberedPage | None:
        """The page at `url`, where the index holds what was read of it."""
        asked = {"of_corpus": corpus, "of_url": _key(url), "as_now": self._read_as}
        with self._database.reading() as connection:
            row = connection.execute(_RECALL, asked).first()
        return _page(url, row) if row is not None and self._is_there(corpus) else None

    def remember(self, corpus: str, page: RememberedPage, *, run_id: str) -> None:
        """Keep what `run_id` has read, in place of what was kept of that address. Counts once it is confirmed."""
        same = ("document_id", "body_sha256", "final_url", "canonical_url")
        fetched_at = page.fetched_at.timestamp()
        row = {
            **{name: getattr(page, name) for name in same},
            "corpus": corpus,
            "url_sha256": _key(page.url),
            "run_id": run_id,
            "is_held": 0,
            "read_as": self._read_as,
            "rendered": int(page.rendered),
            "nosnippet": int(page.nosnippet),
            "etag": _validator(page.etag),
            "last_modified": _validator(page.last_modified),
            "links": _packed(page.links),
            "withdrawn_by": None,
            "checksum": None,
            "changes": 0,
            **dict.fromkeys(("fetched_at", "watched_since", "asked_at"), fetched_at),
        }
        with self._database.holding() as connection:
            connection.put(pages, row, ("corpus", "url_sha256"), _ANEW)

    def confirm(self, corpus: str, checksums: Mapping[str, str], *, run_id: str) -> None:
        """The index now holds documents, by id, with these checksums, as `run_id` alone has read them."""
        about = {"of_corpus": corpus, "of_run": run_id}
        rows = [{**about, "of_document": one, "as_read": checksum} for one, checksum in checksums.items()]
        if rows:
            with self._database.holding() as connection:
                connection.execute_each(_DROP_OTHERS, rows)
                connection.execute_each(_CONFIRM, rows)

    def seen_again(self, corpus: str, url: str, at: datetime, *, asked: bool = True) -> None:
        """The page is as it was at that moment: its site was asked for it, or else its sitemap says so."""
        statement = _SEEN if asked else _TOLD_OF
        with self._database.holding() as connection:
            connection.execute(statement, {"of_corpus": corpus, "of_url": _key(url), "at": at.timestamp()})

    def seen_at(self, corpus: str, document_ids: Sequence[str]) -> dict[str, datetime]:
        """When the pages of these documents were read last or seen to be as they were; without those not remembered."""
        asked = [{"of_corpus": corpus, "of_document": one} for one in dict.fromkeys(document_ids)]
        with self._database.reading() as connection:
            rows = connection.execute_each(_SEEN_AT, asked)
        return {row.document_id: moment(row.seen_at) for row in rows}

    def watched(self, corpus: str, now: datetime, shortest: timedelta) -> Iterator[WatchedPage]:
        """The pages that the index holds and that may be due at `now`, the longest unseen first.

        Those were not seen for as long as the shortest half-life that is expected of any page, or for a part of it:
        half where they changed once, a third where they changed twice.
        A document that was found under several addresses is one page.
        """
        about = {"of_corpus": corpus, "at": now.timestamp(), "shortest": shortest.total_seconds()}
        after, after_url = -math.inf, b""
        while True:
            asked = {**about, "after": after, "after_url": after_url}
            with self._database.reading() as connection:
                rows = connection.execute(_WATCHED, asked).all()
                profiles = [citing_profiles(connection, corpus, row.document_id) for row in rows]
            yield from map(_watched, rows, profiles)
            if len(rows) < WATCHED_AT_ONCE:
                return
            after, after_url = rows[-1].fetched_at, rows[-1].url_sha256

    def withdraw(self, corpus: str, document_ids: Sequence[str], *, by: WithdrawnBy, at: datetime) -> None:
        """Keep of the pages that these documents were made of, and that were not seen since `at`, why they went.

        They count as not known from then on, until they are read anew.
        """
        told = {"of_corpus": corpus, "at": at.timestamp(), "why": by}
        rows = [{**told, "of_document": one} for one in document_ids]
        if rows:
            with self._database.holding() as connection:
                connection.execute_each(_WITHDRAW, rows)

    def withdrawn(self, corpus: str, url: str) -> WithdrawnPage | None:
        """Why the page at `url` is not in the index any more, where it was withdrawn and not read since."""
        with self._database.reading() as connection:
            row = connection.execute(_WITHDRAWN, {"of_corpus": corpus, "of_url": _key(url)}).first()
        return WithdrawnPage(row.withdrawn_by, moment(row.fetched_at)) if row else None

    def forget(self, corpus: str, document_ids: Sequence[str]) -> None:
        """Forget every page that these documents were made of."""
        rows = [{"of_corpus": corpus, "of_document": one} for one in document_ids]
        if rows:
            with self._database.holding() as connection:
                connection.execute_each(_FORGET, rows)


def _key(url: str) -> bytes:
    return hashlib.sha256(url.encode("utf-8", "replace")).digest()


def _page(url: str, row: AnyRow) -> RememberedPage:
    return RememberedPage(
        url=url,
        final_url=row.final_url,
        document_id=row.document_id,
        body_sha256=row.body_sha256,
        fetched_at=moment(row.fetched_at),
        rendered=bool(row.rendered),
        etag=row.etag,
        last_modified=row.last_modified,
        canonical_url=row.canonical_url,
        links=tuple(_unpacked(row.links)),
        nosnippet=bool(row.nosnippet),
    )


def _watched(row: AnyRow, cited_by: tuple[str, ...]) -> WatchedPage:
    return WatchedPage(
        url=row.final_url,
        document_id=row.document_id,
        fetched_at=moment(row.fetched_at),
        asked_at=moment(row.asked_at),
        watched_since=moment(row.watched_since),
        changes=row.changes,
        cited_by=cited_by,
    )


def _validator(value: str | None) -> str | None:
    return None if value is None or len(value) > MAX_VALIDATOR_CHARACTERS else value


def _packed(links: Iterable[PageLink]) -> bytes:
    content = json.dumps([[link.url, link.text] for link in links], separators=(",", ":"))
    return zstandard.compress(content.encode("utf-8", "replace"))


def _unpacked(content: bytes) -> Iterable[PageLink]:
    plain = zstandard.decompress(content, max_output_size=MAX_LINKS_BYTES)
    return (PageLink(url, text) for url, text in json.loads(plain))
