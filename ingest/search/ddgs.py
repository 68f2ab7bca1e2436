"""Search without a key: result pages of public engines, parsed by the engines of the `ddgs` package.

Only their parsers are used. The package's own client decompresses without a limit and claims a browser's name
drawn at random; here our fetcher sends every request: through the egress proxy, under our user agent, within its bytes
and time, with no cookie that a site set. Engines that demand a browser therefore refuse, and are not pressed.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlencode, urljoin, urlsplit

from lxml.etree import LxmlError

from sluice.contracts.errors import InvalidInput, Overloaded, PolicyRefused, SluiceError, TimedOut, Unavailable, needed
from sluice.ingest.extract.charset import decode
from sluice.ingest.http.fetch import REDIRECTS, Fetched, Fetcher, FetchLimits
from sluice.ingest.politeness.hosts import retry_after_seconds
from sluice.ingest.search.parse_results import Clock, Fields, answer_from
from sluice.ingest.search.port import Freshness, SearchAnswer, SearchQuery

Category = Literal["text", "news"]

ENGINE_NAMES: Mapping[Category, tuple[str, ...]] = {
    "text": ("duckduckgo", "mojeek", "brave", "startpage", "yahoo", "wikipedia"),
    "news": ("duckduckgo", "yahoo", "bing"),
}
"""In the order of requests, until there are enough results or the time is up."""
MAX_REDIRECTS = 3
_TIME_LIMITS: Mapping[Freshness, str] = {"day": "d", "week": "w", "month": "m", "year": "y"}
_FIELDS: Mapping[Category, Fields] = {
    "text": Fields(url="href", title="title", snippet="body"),
    "news": Fields(url="url", title="title", snippet="body", dates=("date",)),
}


def _failures() -> tuple[type[Exception], ...]:
    """Return the exceptions of a failing engine: our refusals, and its parser's for a page of unexpected shape."""
    from ddgs.exceptions import DDGSException

    kinds = LxmlError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, OSError, RecursionError
    return (Unavailable, PolicyRefused, InvalidInput, DDGSException, *kinds, StopIteration)


Engine = Any
"""An engine of the package: `name`, `headers_update`, `search`, and `http_client`, which is replaced."""
OpenEngines = Callable[[Category], Iterable[Engine]]


def open_engines(proxy_url: str) -> OpenEngines:
    """Return a function that opens the package's engines. Their own client is unused, but bound to the proxy too.

    Raises NotInstalled if the package is missing.
    """
    if importlib.util.find_spec("ddgs") is None:
        raise needed("crawl", ImportError(name="ddgs"))

    def opened(category: Category) -> Iterable[Engine]:
        from ddgs.engines import ENGINES

        known = ENGINES[category]
        return [known[name](proxy=proxy_url) for name in ENGINE_NAMES[category] if name in known]

    return opened


class Ddgs:
    """Public engines. An engine that blocks us looks like one without results, so no results count as a failure."""

    name = "ddgs"
    page_results = 10
    max_pages = 3

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        limits: FetchLimits,
        clock: Clock,
        usd: float,
        engines: OpenEngines,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        """`limits.timeout_seconds` is for all engines of a page together."""
        self.cost_usd_per_call = usd
        self._fetcher, self._limits, self._clock = fetcher, limits, clock
        self._engines, self._stopwatch = engines, stopwatch

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`."""
        asked = query.as_web()
        category: Category = "news" if asked.vertical == "news" else "text"
        until = self._stopwatch() + self._limits.timeout_seconds
        rows: list[Mapping[str, Any]] = []
        failures: list[tuple[str, Exception]] = []
        for engine in self._engines(category):
            if len(rows) >= asked.missing or self._stopwatch() >= until:
                break
            engine.http_client = EngineClient(self._fetcher, self._limits, self._clock, until, self._stopwatch, engine)
            try:
                rows += [vars(result) for result in self._ask(engine, asked)]
            except _failures() as error:
                failures.append((engine.name, error))
        if not rows:
            raise _failure(failures)
        remarks = [f"{name}: {_told(error)}" for name, error in failures]
        return answer_from(
            rows, _FIELDS[category], now=self._clock(), usd=self.cost_usd_per_call, more=True, remarks=remarks
        )

    def _ask(self, engine: Engine, query: SearchQuery) -> Sequence[Any]:
        window = query.filters.window(query.today)
        found = engine.search(
            query.text,
            region=f"{(query.country or 'wt').lower()}-{query.language if query.country else 'wt'}",
            safesearch="moderate",
            timelimit=_TIME_LIMITS[window] if window else None,
            page=query.page,
        )
        return found or ()


@dataclass(frozen=True, slots=True)
class EngineResponse:
    """The parts of a response that engines read."""

    status_code: int
    content: bytes
    text: str


class EngineClient:
    """Our fetcher behind the interface of the package's HTTP client."""

    def __init__(
        self,
        fetcher: Fetcher,
        limits: FetchLimits,
        clock: Clock,
        until: float,
        stopwatch: Callable[[], float],
        engine: Engine,
    ) -> None:
        """`until` is the end of the time limit on the `stopwatch`."""
        self._fetcher, self._limits, self._clock = fetcher, limits, clock
        self._until, self._stopwatch = until, stopwatch
        self._headers = {name: value for name, value in engine.headers_update.items() if name.lower() != "user-agent"}
        self._cookies: dict[str, str] = {}

    @property
    def client(self) -> EngineClient:
        """This client: engines set their preferences on `client`."""
        return self

    def set_cookies(self, url: str, cookies: Mapping[str, str]) -> None:
        """Set an engine's preferences, such as region and language, for the host of `url`."""
        host = urlsplit(url).hostname or url
        self._cookies[host] = "; ".join(f"{name}={value}" for name, value in cookies.items())

    def get(self, url: str, **parts: Any) -> EngineResponse:
        """See `request`."""
        return self.request("GET", url, **parts)

    def post(self, url: str, **parts: Any) -> EngineResponse:
        """See `request`."""
        return self.request("POST", url, **parts)

    def request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        data: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> EngineResponse:
        """Return the response after at most `MAX_REDIRECTS` redirects.

        Raises Overloaded for status 202, 429 or 503; TimedOut, Unavailable and PolicyRefused as the fetcher.
        """
        content = urlencode(data).encode() if data else None
        form = {"Content-Type": "application/x-www-form-urlencoded"} if content else {}
        response = self._exchange(method, _with(url, params), {**form, **(headers or {})}, content)
        for _ in range(MAX_REDIRECTS):
            target = response.headers.get("location") if response.status in REDIRECTS else None
            if target is None:
                break
            response = self._exchange("GET", urljoin(response.url, target), headers or {}, None)
        if response.status in {202, 429, 503}:  # 202 is DuckDuckGo's way to refuse for now
            seconds = retry_after_seconds(response.headers.get("retry-after"), self._clock())
            raise Overloaded(f"answers {response.status}", seconds)
        return EngineResponse(response.status, response.body, decode(response.body, response.charset))

    def _exchange(self, method: str, url: str, headers: Mapping[str, str], content: bytes | None) -> Fetched:
        left_seconds = self._until - self._stopwatch()
        if left_seconds <= 0:
            raise TimedOut(f"the {self._limits.timeout_seconds:g} s of the search are up")
        cookie = self._cookies.get(urlsplit(url).hostname or "", "")
        sent = {**self._headers, **headers, "Cookie": cookie}
        return self._fetcher.exchange(
            url, method=method, headers=sent, content=content, limits=self._limits, timeout_seconds=left_seconds
        )


def _with(url: str, parameters: Mapping[str, str] | None) -> str:
    if not parameters:
        return url
    return f"{url}{'&' if '?' in url else '?'}{urlencode(parameters)}"


def _failure(failures: Sequence[tuple[str, Exception]]) -> Unavailable:
    """Return one error for all failures: Overloaded or TimedOut if the first such failure is, else Unavailable."""
    why = "; ".join(f"{name}: {_told(error)}" for name, error in failures)
    told = f"ddgs: no engine gave results ({why})" if why else "ddgs: no engine gave results"
    for _, error in failures:
        if isinstance(error, Overloaded):
            return Overloaded(told, error.retry_after_seconds)
        if isinstance(error, TimedOut):
            return TimedOut(told)
    return Unavailable(told)


def _told(error: Exception) -> str:
    """Return our own errors' text; for others only their type, as they may quote the page."""
    return str(error) if isinstance(error, SluiceError) else f"a page of another shape ({type(error).__name__})"
