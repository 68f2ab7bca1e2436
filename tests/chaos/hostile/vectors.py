"""Every way in which a page, or a site, can send whoever reads it elsewhere.

A page of a vector carries many addresses at once. What its scripts do ends with a request for `/ran/VECTOR/CHUNK`, so
that a page whose scripts never ran is not taken for one that was stopped.
"""

from __future__ import annotations

import html as markup
import json
from collections.abc import Callable, Sequence

from tests.chaos.hostile.server import Answer, Reply, Request, html

STATUSES = (301, 302, 303, 307, 308)
Page = Callable[[Sequence[str], Sequence[int]], str]
"""Makes the inside of a page out of addresses and their numbers."""

_RAN = "fetch(location.origin + '/ran' + location.pathname.slice(2)).catch(() => 0)"
"""Past any `<base>`."""
_STILL_AT_WORK = "const w = setInterval(() => document.body.append(' .'), 60); setTimeout(() => clearInterval(w), 600);"


def _script(code: str) -> Page:
    """A page that runs `code` for each address, as `u`, and its number, as `n`."""

    def page(addresses: Sequence[str], numbers: Sequence[int]) -> str:
        pairs = json.dumps(list(zip(addresses, numbers, strict=True))).replace("</", "<\\/")
        tries = f"for (const [u, n] of {pairs}) {{ try {{ {code} }} catch (e) {{}} }}"
        return f"<script>{_STILL_AT_WORK}\n{tries}\n{_RAN}</script>"

    return page


def _tags(template: str) -> Page:
    """A page with the tags of `template` for each address: `URL` and `NUMBER` stand for it.

    Its script stands before them, as one behind a style sheet waits for that.
    """

    def page(addresses: Sequence[str], numbers: Sequence[int]) -> str:
        tags = [
            template.replace("URL", markup.escape(address)).replace("NUMBER", str(number))
            for address, number in zip(addresses, numbers, strict=True)
        ]
        return f"<script>{_STILL_AT_WORK}\nsetTimeout(() => {_RAN}, 300)</script>\n" + "\n".join(tags)

    return page


_WEBSOCKET = "u.replace(/^http/, 'ws')"
_HOST = "u.replace(/^[a-z]+:[/]*/, '').replace(/[/].*$/, '')"

BROWSER: dict[str, Page] = {
    "fetch": _script("fetch(u, {mode: 'no-cors'}).catch(() => 0)"),
    "fetch with a body": _script("fetch(u, {method: 'POST', mode: 'no-cors', body: 'x'}).catch(() => 0)"),
    "keepalive fetch": _script("fetch(u, {mode: 'no-cors', keepalive: true}).catch(() => 0)"),
    "XHR": _script("const x = new XMLHttpRequest(); x.open('GET', u); x.send()"),
    "WebSocket": _script(f"new WebSocket({_WEBSOCKET})"),
    "EventSource": _script("new EventSource(u)"),
    "beacon": _script("navigator.sendBeacon(u, 'x')"),
    "WebTransport": _script("new WebTransport(u.replace('http:', 'https:'))"),
    "WebRTC": _script(
        f"const c = new RTCPeerConnection({{iceServers: [{{urls: ['stun:' + {_HOST} + ':3478', "
        f"'stun:' + {_HOST} + ':19302']}}, {{urls: 'turn:' + {_HOST} + ':3478?transport=tcp', username: 'a', "
        "credential: 'b'}]}); c.createDataChannel('x'); c.createOffer().then(o => c.setLocalDescription(o))"
    ),
    "WebRTC candidates": _script(
        "const c = new RTCPeerConnection(); c.createDataChannel('x'); c.createOffer().then(o => "
        "c.setLocalDescription(o)).then(() => c.setRemoteDescription({type: 'answer', sdp: "
        "c.localDescription.sdp.replace('actpass', 'active')})).catch(() => 0).then(() => "
        f"c.addIceCandidate({{candidate: 'candidate:1 1 udp 2113937151 ' + {_HOST} + ' 80 typ host', sdpMid: '0', "
        "sdpMLineIndex: 0})).catch(() => 0)"
    ),
    "worker": _script(
        "new Worker(URL.createObjectURL(new Blob(['fetch(' + JSON.stringify(u) + ', {mode: \"no-cors\"})'])))"
    ),
    "importScripts": _script("new Worker(URL.createObjectURL(new Blob(['importScripts(' + JSON.stringify(u) + ')'])))"),
    "shared worker": _script(
        "new SharedWorker(URL.createObjectURL(new Blob(['fetch(' + JSON.stringify(u) + ', {mode: \"no-cors\"})'])))"
    ),
    "module": _script("import(u).catch(() => 0)"),
    "service worker": _script("if (navigator.serviceWorker) navigator.serviceWorker.register('/sw/' + n + '.js')"),
    "script location in a frame": _tags('<iframe src="/script/NUMBER"></iframe>'),
    "meta refresh in a frame": _tags('<iframe src="/refresh/NUMBER"></iframe>'),
    "Refresh header in a frame": _tags('<iframe src="/header/NUMBER"></iframe>'),
    "iframe": _tags('<iframe src="URL"></iframe>'),
    "object and embed": _tags('<object data="URL"></object><embed src="URL">'),
    "image": _tags('<img src="URL"><img srcset="URL 1x"><picture><source srcset="URL"><img></picture>'),
    "redirected image": _tags('<img src="/go/302/NUMBER"><img src="/go/307/NUMBER">'),
    "redirected fetch": _script(
        "for (const s of [301, 302, 303, 307, 308]) fetch('/go/' + s + '/' + n).catch(() => 0)"
    ),
    "script tag": _tags('<script src="URL"></script><script type="module" src="URL"></script>'),
    "style sheet": _tags('<link rel="stylesheet" href="URL">'),
    "CSS": _tags('<style>@import "URL"; #aNUMBER {background: url("URL")}</style><div id="aNUMBER">x</div>'),
    "font": _tags(
        '<style>@font-face{font-family:"fNUMBER";src:url("URL")}</style><p style="font-family:fNUMBER">x</p>'
    ),
    "SVG": _tags('<svg><image href="URL"/><use href="URL#x"/></svg>'),
    "media": _tags(
        '<video src="URL" poster="URL" autoplay></video><audio src="URL" autoplay><track src="URL"></audio>'
    ),
    "prefetch": _tags(
        '<link rel="prefetch" href="URL"><link rel="preconnect" href="URL"><link rel="dns-prefetch" href="URL">'
        '<link rel="prerender" href="URL"><link rel="modulepreload" href="URL"><link rel="preload" as="fetch" href="URL">'
    ),
    "speculation rules": _tags(
        '<script type="speculationrules">{"prerender":[{"source":"list","urls":["URL"]}],'
        '"prefetch":[{"source":"list","urls":["URL"]}]}</script>'
    ),
    "icons and manifest": _tags(
        '<link rel="icon" href="URL"><link rel="apple-touch-icon" href="URL"><link rel="manifest" href="URL">'
    ),
    "form": _tags(
        '<iframe name="tNUMBER"></iframe><form id="fNUMBER" method="post" target="tNUMBER" action="URL"><input name="a">'
        '</form><script>document.getElementById("fNUMBER").submit()</script>'
    ),
    "popup": _script("open(u)"),
    "ping": _script(
        "const a = document.createElement('a'); a.href = '#x'; a.ping = u; document.body.append(a); a.click()"
    ),
    "data page": _script(
        "const f = document.createElement('iframe'); f.src = 'data:text/html,<img src=\"' + u + '\">'; "
        "document.body.append(f)"
    ),
    "srcdoc": _script(
        "const f = document.createElement('iframe'); f.srcdoc = '<img src=\"' + u + '\">'; document.body.append(f)"
    ),
    "PDF link": _tags('<iframe src="/go/302/NUMBER.pdf"></iframe><a href="/go/302/NUMBER.pdf">PDF</a>'),
    "base": _tags('<base href="URL"><img src="a.png">'),
    "policy report": _tags(
        '<meta http-equiv="Content-Security-Policy" content="img-src \'none\'; report-uri URL"><img src=x>'
    ),
}
"""What a page can do in a browser with many addresses at once."""

TOP_LEVEL: dict[str, str] = {
    "address": "URL",
    "redirect": "http://HOST/go/302/NUMBER",
    "permanent redirect": "http://HOST/go/308/NUMBER",
    "script location": "http://HOST/script/NUMBER",
    "meta refresh": "http://HOST/refresh/NUMBER",
    "form, posted": "http://HOST/form/NUMBER",
}
"""Where the page itself goes on: one address each. `HOST` is a host of the case's own."""

HTTP: dict[str, str] = {
    "address": "URL",
    **{f"redirect {status}": f"http://HOST/go/{status}/NUMBER" for status in STATUSES},
    "second redirect": "http://HOST/go/twice/NUMBER",
    "redirected robots.txt": "http://robots-NUMBER.HOST/page",
    "redirected PDF": "http://HOST/go/302/NUMBER.pdf",
    "Refresh header": "http://HOST/header/NUMBER",
    "meta refresh": "http://HOST/refresh/NUMBER",
    "link": "http://HOST/link/NUMBER",
    "canonical": "http://HOST/canonical/NUMBER",
    "sitemap": "http://sitemap-NUMBER.HOST/page",
    "feed": "http://HOST/feed/NUMBER",
}
"""Ways that need no browser: one address each; the links of what comes back are crawled as well."""


class Vectors:
    """Answers for every vector, for the addresses of `table`."""

    def __init__(self, table: Sequence[str]) -> None:
        self._table = table

    def chunks(self, size: int) -> list[range]:
        """The numbers of the addresses, so many together."""
        count = len(self._table)
        return [range(start, min(start + size, count)) for start in range(0, count, size)]

    def find(self, request: Request) -> Answer | None:
        """The answer to one of the paths above."""
        words = request.path.strip("/").split("/")
        form, _, rest = request.host.partition("-")
        if form in {"robots", "sitemap"}:
            return self._by_host(form, int(rest.partition(".")[0]), request.path)
        if words[0] == "v" and len(words) == 4 and words[2].isdecimal() and words[3].isdecimal():
            return self._page(words[1].replace("_", " "), int(words[2]), int(words[3]))
        if words[0] == "ran" or request.path == "/robots.txt":
            return Reply(b"", 204) if words[0] == "ran" else None
        number = words[-1].partition(".")[0]
        is_known = number.isdecimal() and int(number) < len(self._table)
        return self._step(words, self._table[int(number)]) if is_known else None

    def _page(self, vector: str, start: int, end: int) -> Reply:
        numbers = range(start, end)
        inside = BROWSER[vector]([self._table[number] for number in numbers], numbers)
        return html(f"<!doctype html><title>{vector}</title><body><p>A page of words.</p>{inside}")

    def _by_host(self, form: str, number: int, path: str) -> Reply:
        if path != "/robots.txt":
            return html("<title>x</title><p>A page of words.</p>")
        if form == "robots":
            return _moved(302, self._table[number])
        return Reply(f"User-agent: *\nAllow: /\nSitemap: {self._table[number]}\n".encode(), 200, (_PLAIN,))

    def _step(self, words: list[str], address: str) -> Answer | None:
        quoted = markup.escape(address)
        if words[0] == "go" and words[1] == "twice":
            return _moved(302, f"/go/307/{words[2]}")
        pages: dict[str, Callable[[], Reply]] = {
            "go": lambda: _moved(int(words[1]), address),
            "script": lambda: html(f"<title>x</title><script>location = {json.dumps(address)}</script><p>Words."),
            "refresh": lambda: html(f'<title>x</title><meta http-equiv="refresh" content="0; url={quoted}"><p>Words.'),
            "header": lambda: html("<title>x</title><p>Words.", ("Refresh", f"0; url={_line(address)}")),
            "form": lambda: html(
                f'<form id=f method=post action="{quoted}"></form><script>f.submit()</script><p>Words.</p>'
            ),
            "link": lambda: html(f'<title>x</title><p>Words. <a href="{quoted}">a word</a></p>'),
            "canonical": lambda: html(f'<title>x</title><link rel="canonical" href="{quoted}"><p>Words.</p>'),
            "feed": lambda: Reply(_feed(quoted).encode(), 200, (("Content-Type", "application/rss+xml"),)),
            "sw": lambda: Reply(
                f"fetch({json.dumps(address)}, {{mode: 'no-cors'}})".encode(),
                200,
                (("Content-Type", "text/javascript"),),
            ),
        }
        return pages[words[0]]() if words[0] in pages else None


_PLAIN = ("Content-Type", "text/plain")


def _moved(status: int, address: str) -> Reply:
    return Reply(b"", status, (("Location", _line(address)),))


def _line(address: str) -> str:
    """As it can stand in a header."""
    return address.replace("\r", "").replace("\n", "").replace("\0", "")


def _feed(address: str) -> str:
    item = f"<item><title>An item</title><link>{address}</link><enclosure url='{address}'/></item>"
    return f"<?xml version='1.0'?><rss version='2.0'><channel><title>A feed</title>{item}</channel></rss>"
