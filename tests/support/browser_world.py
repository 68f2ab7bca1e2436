"""A small hostile and honest world for a browser: a site, the proxy before it, and pages by their paths."""

from __future__ import annotations

import base64
import http.client
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sluice.contracts.errors import InvalidSetting
from sluice.ingest.browser.browser import Browser
from sluice.ingest.browser.page import Rendered, RenderLimits, nothing
from sluice.ingest.deadline import CancelCheck, never_cancelled
from sluice.ingest.settings import CrawlSettings

HTML = "text/html; charset=utf-8"

PAGES = {
    "/plain": "<title>Plain</title><p>nothing special",
    "/late": (
        "<main>empty</main><script>"
        "fetch('/facts').then(r => r.text()).then(t => { document.querySelector('main').textContent = t })</script>"
    ),
    "/alert": "<p>before</p><script>alert('stop'); document.body.append('after the alert')</script>",
    "/popup": "<p>opener</p><script>open('/plain'); open('/plain')</script>",
    "/windows": "<p>opener</p><script>setInterval(() => { for (let i = 0; i < 20; i++) open('/plain') }, 5)</script>",
    "/loop": "<p>spinning</p><script>while (true) {}</script>",
    "/ticking": "<p id=t>0</p><script>setInterval(() => { t.textContent = +t.textContent + 1 }, 20)</script>",
    "/large": "<script>document.documentElement.append('x'.repeat(200000))</script>",
    "/moving": "<script>location.replace('/plain')</script>",
    "/liar": "<p>honest text</p><script>MutationObserver = null; setTimeout = null; Promise = null</script>",
}


class Site(BaseHTTPRequestHandler):
    """A small site; `/facts` is slow, `/file` is a download, every other path is one of `PAGES`."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        path = urlsplit(self.path).path
        if path == "/facts":
            time.sleep(0.5)
            self._send(b"forty-two facts", "text/plain")
        elif path == "/file":
            self._send(b"\0\1\2", "application/octet-stream")
        elif path == "/old":
            self._answer(302, Location="/plain")
        elif path == "/twice":
            self._answer(302, Location="/old")
        elif path == "/locked":
            self._answer(401, WWW_Authenticate='Basic realm="members"')
        elif path == "/cached":
            self._send(b"document.write('cached script')", "text/javascript", Cache_Control="max-age=3600")
        elif path == "/identify":
            self._send(b"<p>known", "text/html", Set_Cookie="visitor=one; Max-Age=3600")
        elif path in PAGES:
            self._send(PAGES[path].replace("ORIGIN", f"http://{self.headers['Host']}").encode(), HTML)
        else:
            self._send(b"<p>no such page", "text/html", status=404)

    do_POST = do_GET  # noqa: N815

    def _answer(self, status: int, **headers: str) -> None:
        self._send(b"", "text/plain", status=status, **headers)

    def _send(self, body: bytes, media_type: str, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Proxy(BaseHTTPRequestHandler):
    """A forward proxy that wants a password and remembers what it was asked for."""

    asked: list[str]

    def do_GET(self) -> None:
        expected = "Basic " + base64.b64encode(b"agent:pass:word").decode()
        if self.headers.get("Proxy-Authorization") != expected:
            self.send_response(407)
            self.send_header("Proxy-Authenticate", 'Basic realm="egress"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.asked.append(self.path)
        target = urlsplit(self.path)
        connection = http.client.HTTPConnection(target.netloc, timeout=10)
        address = (target.path or "/") + (f"?{target.query}" if target.query else "")
        headers = {name: value for name in ("Cookie", "Host") if (value := self.headers.get(name))}
        connection.request("GET", address, headers=headers)
        response = connection.getresponse()
        body = response.read()
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in {"connection", "date", "server"}:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        connection.close()

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


def _serving(handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class World:
    """A site, the proxy before it, and a browser that knows both."""

    def __init__(self, settings: CrawlSettings | None = None) -> None:
        self.asked: list[str] = []
        self.seen: list[str] = []
        self._site = _serving(type("RecordingSite", (Site,), {"asked": self.seen}))
        self._proxy = _serving(type("RecordingProxy", (Proxy,), {"asked": self.asked}))
        self.origin = f"http://127.0.0.1:{self._site.server_port}"
        self.proxy_url = f"http://agent:pass%3Aword@127.0.0.1:{self._proxy.server_port}"
        self.check_cancelled: CancelCheck = never_cancelled
        """A test may put its own in the place."""
        self.browser = Browser(settings or CrawlSettings(), check_cancelled=lambda: self.check_cancelled())

    def render(
        self,
        path: str,
        *,
        browser: Browser | None = None,
        seconds: float = 40,
        size: int = 100_000,
        nodes: int = 10_000,
        requests: int = 50,
        pre_request: Callable[[str], None] = nothing,
        screenshot: bool = False,
        run_id: str = "",
    ) -> Rendered:
        return (browser or self.browser).render(
            self.origin + path,
            proxy_url=self.proxy_url,
            user_agent="TestBot/1",
            limits=RenderLimits(seconds, size, max_nodes=nodes, max_requests=requests),
            pre_request=pre_request,
            screenshot=screenshot,
            run_id=run_id,
        )

    def close(self) -> None:
        self.browser.close()
        for server in (self._site, self._proxy):
            server.shutdown()
            server.server_close()


def world_with_a_browser(settings: CrawlSettings | None = None) -> World:
    """A world whose browser is proven to run here, else the test is skipped."""
    made = World(settings)
    try:
        made.browser.assert_sandboxed()
    except InvalidSetting as error:
        made.close()
        pytest.skip(f"no Chromium here: {error}")
    return made


def chromium_under_test(browser: Browser) -> int:
    """The process of the warm browser."""
    assert browser.running is not None
    return browser.running.pid


def runs(pid: int) -> bool:
    """Whether `pid` is alive; one that ended but was not yet collected is not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
