"""Which hosts build their pages by scripts: learned from pages, so that the next ones go to a browser at once.

Promises: a host is believed to need a browser once three of its last four pages were shells whose text a browser
made much longer. Each twentieth page of such a host is read without one all the same, so that a site that changes is
found out. What is learned is shared by all workers, lives for seven days, and is never needed: without a broker
every page is judged by itself.
"""

from __future__ import annotations

from sluice.ingest.politeness.optional_redis import LenientBroker

LOOKED_AT = 4
"""The latest pages of a host that count."""
LEAST_SHELLS = 3
"""So many of them must have needed a browser."""
CHECK_EVERY = 20
"""Pages of a host that needs a browser, of which one is read without it."""
TTL_SECONDS = 7 * 86_400
"""A site that was not crawled for a week may have been built anew."""


class HostMemory:
    """What was learned of hosts, in the broker at `broker_url`. Safe across threads and processes."""

    def __init__(self, broker_url: str, *, key_prefix: str = "sluice") -> None:
        self._broker = LenientBroker(broker_url)
        self._key_prefix = key_prefix

    def needs_browser(self, host: str) -> str | None:
        """Why the next page of `host` should go to a browser at once; None where it is to be read without one.

        To be asked once for each page: the askings are counted.
        """
        shells = self._broker.run(_ASK, [self._key(host)], [LEAST_SHELLS, CHECK_EVERY, TTL_SECONDS])
        return f"{shells} of the last {LOOKED_AT} pages of {host} needed one" if shells else None

    def learned(self, host: str, was_shell: bool, rendered_helped: bool | None) -> None:
        """Take note of a page of `host` that was read without a browser first.

        `was_shell`: there was evidence that it needs one. `rendered_helped`: whether the browser's text was then
        much longer (`ingest.crawl.page_scan.browser_helped`); None where none was used, from which nothing can be
        learned.
        """
        if was_shell and rendered_helped is None:
            return
        needed = 1 if was_shell and rendered_helped else 0
        self._broker.run(_LEARN, [self._key(host)], [needed, LOOKED_AT, TTL_SECONDS])

    def close(self) -> None:
        """Close the connections to the broker."""
        self._broker.close()

    def _key(self, host: str) -> str:
        return f"{self._key_prefix}:host:{host}"


# `pages` holds the latest pages as digits, 1 for one that needed a browser. Hosts that never did keep nothing.
_LEARN = """
local pages = redis.call('HGET', KEYS[1], 'pages')
if not pages and ARGV[1] == '0' then return 0 end
pages = string.sub((pages or '') .. ARGV[1], -tonumber(ARGV[2]))
if not string.find(pages, '1', 1, true) then return redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'pages', pages)
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
"""
_ASK = """
local pages = redis.call('HGET', KEYS[1], 'pages')
if not pages then return 0 end
local _, shells = string.gsub(pages, '1', '')
if shells < tonumber(ARGV[1]) then return 0 end
redis.call('EXPIRE', KEYS[1], ARGV[3])
if redis.call('HINCRBY', KEYS[1], 'asked', 1) % tonumber(ARGV[2]) == 0 then return 0 end
return shells
"""
