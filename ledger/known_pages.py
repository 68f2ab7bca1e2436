"""Pages that were fetched, as the ledger remembers them.

Promises: `recall` returns a page only while the index holds what was read of it. A page is remembered when it is
fetched, and counts once the same run's document is in the journal. It is forgotten with its document, and when another
reading replaces that document. Forgetting a page too early costs one more reading; forgetting it too late would lose
it: in doubt it is forgotten. For a page that was withdrawn from the index, the reason is kept.

The run that fetched a page writes its row; the row is *held* from the moment that this run's document
is in the journal. When another run's document takes that place the row is deleted, because it no longer describes
the indexed text. A withdrawn page keeps its row, which no run holds, with the reason. No write here needs a
sync of its own: a row lost in a power cut means that the page is read once more, and the commit of a removal,
which follows, makes the forgetting durable.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import zstandard
from sqlalchemy import bindparam, case, delete, exists, func, or_, select, tuple_, update

from sluice.contracts.ingest import PageLink, RememberedPage, WatchedPage, WithdrawnBy, WithdrawnPage
from sluice.ledger.database import Database
from sluice.ledger.schema.tables import AnyRow, moment, pages, passage_marks, runs
from sluice.ledger.trust.citations import citing_profiles

MAX_VALIDATOR_CHARACTERS = 1_000
"""Longest ETag or date, as a site sends it, that is stored and sent back."""
MAX_LINKS_BYTES = 16_000_000
"""Limit of a page's links once decompressed: far more than `ingest.crawl.page_scan` finds in one."""
WATCHED_AT_ONCE = 1_000
"""Rows that one transaction reads of the pages that may be due."""
_KEPT = ("checksum", "watched_since", "changes", "owner")
"""Columns that survive when a page is read anew."""
_ANEW = tuple(one.name for one in pages.c if not one.primary_key and one.name not in _KEPT)
_SAME = ("document_id", "body_sha256", "final_url", "canonical_url")
NO_RUN = ""
"""The run id of a withdrawn page: no run still under way can confirm it."""

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
_IS_CALLED_OUTDATED = exists().where(
    passage_marks.c.corpus == pages.c.corpus,
    passage_marks.c.document_id == pages.c.document_id,
    passage_marks.c.reason == "outdated",
    passage_marks.c.at > func.coalesce(pages.c.asked_at, pages.c.fetched_at),
)
_WATCHED = (
    select(
        *(pages.c[name] for name in ("url_sha256", "final_url", "document_id", "changes", "fetched_at", "owner")),
        func.coalesce(pages.c.asked_at, pages.c.fetched_at).label("asked_at"),
        func.coalesce(pages.c.watched_since, pages.c.fetched_at).label("watched_since"),
        case((_IS_CALLED_OUTDATED, 1), else_=0).label("is_called_outdated"),
    )
    .where(
        pages.c.corpus == bindparam("of_corpus"),
        pages.c.is_held == 1,
        or_(
            (bindparam("at") - pages.c.fetched_at) * (1 + pages.c.changes) >= bindparam("shortest"), _IS_CALLED_OUTDATED
        ),
        tuple_(pages.c.fetched_at, pages.c.url_sha256) > tuple_(bindparam("after"), bindparam("after_url")),
        ~_IS_SEEN_LATER,
    )
    .order_by(pages.c.fetched_at, pages.c.url_sha256)
    .limit(WATCHED_AT_ONCE)
)
_OWNER = select(runs.c.owner).where(runs.c.run_id == bindparam("of_run"))
_FORGET = delete(pages).where(*_OF_DOCUMENT).returning(pages.c.is_held)


class PageMemory:
    """Fetched pages, by corpus and address. Safe across threads and forks, as its database is.

    Every method may be called twice, and raises Unavailable where the ledger does not answer.
    """

    def __init__(
        self, database: Database, *, read_as: str = "", is_there: Callable[[str], bool] = lambda corpus: True
    ) -> None:
        """`read_as` names everything that decides how a page is read: pages read in another way are not recalled.

        `is_there` tells whether a corpus has a journal; without one nothing is recalled.
        """
        self._database = database
        self._read_as = read_as
        self._is_there = is_there

    def recall(self, corpus: str, url: str) -> RememberedPage | None:
        """Return the page at `url` if the index holds what was read of it."""
        asked = {"of_corpus": corpus, "of_url": _key(url), "as_now": self._read_as}
        row = self._database.read(_RECALL, asked).first()
        return _page(url, row) if row is not None and self._is_there(corpus) else None

    def remember(self, corpus: str, page: RememberedPage, *, run_id: str) -> None:
        """Store the page that `run_id` has read, replacing the row of that address. It counts once confirmed."""
        fetched_at = page.fetched_at.timestamp()
        row = {
            **{name: getattr(page, name) for name in _SAME},
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
            row["owner"] = connection.execute(_OWNER, {"of_run": run_id}).scalar()
            connection.put(pages, row, ("corpus", "url_sha256"), _ANEW)

    def confirm(self, corpus: str, checksums: Mapping[str, str], *, run_id: str) -> None:
        """Mark documents (id to checksum) as held by the index, as read by `run_id`; drop the rows of other runs."""
        about = {"of_corpus": corpus, "of_run": run_id}
        rows = [{**about, "of_document": one, "as_read": checksum} for one, checksum in checksums.items()]
        if rows:
            with self._database.holding() as connection:
                connection.execute_each(_DROP_OTHERS, rows)
                connection.execute_each(_CONFIRM, rows)

    def seen_again(self, corpus: str, url: str, at: datetime, *, asked: bool = True) -> None:
        """Note that the page was unchanged at `at`: its site answered a request (`asked`), or its sitemap says so."""
        statement = _SEEN if asked else _TOLD_OF
        with self._database.holding() as connection:
            connection.execute(statement, {"of_corpus": corpus, "of_url": _key(url), "at": at.timestamp()})

    def seen_at(self, corpus: str, document_ids: Sequence[str]) -> dict[str, datetime]:
        """Return when each document's page was last read or seen unchanged; documents not remembered are left out."""
        asked = [{"of_corpus": corpus, "of_document": one} for one in dict.fromkeys(document_ids)]
        with self._database.reading() as connection:
            rows = connection.execute_each(_SEEN_AT, asked)
        return {row.document_id: moment(row.seen_at) for row in rows}

    def watched(self, corpus: str, now: datetime, shortest: timedelta) -> Iterator[WatchedPage]:
        """Yield the pages that the index holds and that may be due at `now`, the longest unseen first.

        A page may be due when it was not seen for the shortest half-life expected of any page, or for a part of it:
        half where it changed once, a third where it changed twice. One that was called outdated may be due at once.
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
        """Mark the pages of these documents that were not seen since `at` as withdrawn, with the reason.

        They count as unknown from then on, until they are read anew.
        """
        told = {"of_corpus": corpus, "at": at.timestamp(), "why": by}
        rows = [{**told, "of_document": one} for one in document_ids]
        if rows:
            with self._database.holding() as connection:
                connection.execute_each(_WITHDRAW, rows)

    def withdrawn(self, corpus: str, url: str) -> WithdrawnPage | None:
        """Return why and when the page at `url` was withdrawn; None unless it was withdrawn and not read since."""
        row = self._database.read(_WITHDRAWN, {"of_corpus": corpus, "of_url": _key(url)}).first()
        return WithdrawnPage(row.withdrawn_by, moment(row.fetched_at)) if row else None

    def forget(self, corpus: str, document_ids: Sequence[str]) -> None:
        """Forget every page of these documents."""
        rows = [{"of_corpus": corpus, "of_document": one} for one in document_ids]
        if rows:
            with self._database.holding() as connection:
                connection.execute_each(_FORGET, rows)


def _key(url: str) -> bytes:
    return hashlib.sha256(url.encode("utf-8", "replace")).digest()


def _page(url: str, row: AnyRow) -> RememberedPage:
    return RememberedPage(
        url=url,
        fetched_at=moment(row.fetched_at),
        rendered=bool(row.rendered),
        links=tuple(_unpacked(row.links)),
        nosnippet=bool(row.nosnippet),
        **{name: getattr(row, name) for name in (*_SAME, "etag", "last_modified")},
    )


def _watched(row: AnyRow, cited_by: tuple[str, ...]) -> WatchedPage:
    fetched_at, asked_at, since = map(moment, (row.fetched_at, row.asked_at, row.watched_since))
    page = WatchedPage(row.final_url, row.document_id, fetched_at, asked_at, since, row.changes, cited_by, row.owner)
    return replace(page, is_called_outdated=bool(row.is_called_outdated))


def _validator(value: str | None) -> str | None:
    return None if value is None or len(value) > MAX_VALIDATOR_CHARACTERS else value


def _packed(links: Iterable[PageLink]) -> bytes:
    content = json.dumps([[link.url, link.text] for link in links], separators=(",", ":"))
    return zstandard.compress(content.encode("utf-8", "replace"))


def _unpacked(content: bytes) -> Iterable[PageLink]:
    plain = zstandard.decompress(content, max_output_size=MAX_LINKS_BYTES)
    return (PageLink(url, text) for url, text in json.loads(plain))
