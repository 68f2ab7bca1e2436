"""A tiny S3 on this machine: objects in memory, every request recorded; GET with ranges, PUT, LIST, DELETE."""

from __future__ import annotations

import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape


class LoopbackS3:
    """One bucket. `fail_next` makes as many requests fail with 503; `forbidden` makes all of them fail with 403."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.authorizations: set[str] = set()
        self.fail_next = 0
        self.forbidden = False
        self.lock = threading.Lock()
        self.url = ""


@contextmanager
def serving() -> Iterator[LoopbackS3]:
    """The server, listening on a free port of this machine."""
    bucket = LoopbackS3()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(bucket))
    server.daemon_threads = True
    bucket.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(bucket: LoopbackS3) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if not self._admitted():
                return
            if "list-type" in self._query:
                self._reply(200, _listing(bucket, self._query.get("prefix", "")))
                return
            content = bucket.objects.get(self._key)
            if content is None:
                self._reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
                return
            wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if wanted is None:
                self._reply(200, content, {"ETag": '"e"'})
                return
            start, end = int(wanted[1]), min(int(wanted[2] or len(content)), len(content) - 1)
            about = {"ETag": '"e"', "Content-Range": f"bytes {start}-{end}/{len(content)}"}
            self._reply(206, content[start : end + 1], about)

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self._admitted():
                with bucket.lock:
                    bucket.objects[self._key] = body
                self._reply(200, b"", {"ETag": '"e"'})

        def do_DELETE(self) -> None:
            if self._admitted():
                bucket.objects.pop(self._key, None)
                self._reply(204, b"")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            if self._admitted() and "delete" in self._query:
                keys = re.findall(r"<Key>([^<]+)</Key>", body)
                for key in keys:
                    bucket.objects.pop(key, None)
                deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
                self._reply(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

        def log_message(self, format: str, *arguments: object) -> None:
            pass

        @property
        def _key(self) -> str:
            return urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).split("/", 2)[2]

        @property
        def _query(self) -> dict[str, str]:
            query = urllib.parse.urlsplit(self.path).query
            return dict(urllib.parse.parse_qsl(query, keep_blank_values=True))

        def _admitted(self) -> bool:
            with bucket.lock:
                bucket.requests.append((self.command, self.path))
                bucket.authorizations.add(self.headers.get("Authorization", ""))
                failing = bucket.fail_next > 0
                bucket.fail_next -= failing
            if failing or bucket.forbidden:
                self._reply(503 if failing else 403, b"<Error><Code>Refused</Code></Error>")
            return not failing and not bucket.forbidden

        def _reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _listing(bucket: LoopbackS3, prefix: str) -> bytes:
    entries = "".join(
        f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f'<ETag>"e"</ETag><Size>{len(content)}</Size></Contents>'
        for key, content in sorted(bucket.objects.items())
        if key.startswith(prefix)
    )
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode()
