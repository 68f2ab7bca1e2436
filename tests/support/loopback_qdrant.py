"""A Qdrant server on this machine, as far as this project speaks with one: the REST calls, answered by the client
library's own in-memory engine, each decoded by the library's models, so that a call of a wrong shape is an error."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import threading
import time
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import SecretStr, TypeAdapter
from qdrant_client import QdrantClient, models

from sluice.index.qdrant.server import ServerCollection, collection_name, server_client
from sluice.index.settings import QdrantSettings


class LoopbackQdrant:
    """`status` other than 200 is what every call is answered with; `delay_seconds` goes before each answer."""

    def __init__(self) -> None:
        self.engine = QdrantClient(":memory:")
        self.calls: list[tuple[str, str, dict[str, str], Any]] = []
        self.keys: set[str | None] = set()
        self.status = 200
        self.delay_seconds = 0.0
        self.lock = threading.Lock()
        self.url = ""


SERVER_URL = "SLUICE_TEST_QDRANT_URL"
"""Names a Qdrant server or cluster on which the tests of the engine run too; its key is in `QDRANT_API_KEY`."""
KINDS = ("memory", "edge", "server")


@contextlib.contextmanager
def collection_of(kind: str) -> Iterator[ServerCollection]:
    """A collection without the way over a loopback: `memory` is the client library's engine in Python, `edge` is
    Qdrant's own as a library, `server` a server that is named in the environment. The last two may be skipped."""
    if kind == "edge":
        from tests.support.edge_qdrant import EdgeClient

        client: Any = EdgeClient()
        settings = QdrantSettings()
    elif kind == "server":
        url = os.environ.get(SERVER_URL)
        if not url:
            pytest.skip(f"{SERVER_URL} names no Qdrant server")
        key = os.environ.get("QDRANT_API_KEY")
        prefix = f"test-{secrets.token_hex(4)}"
        settings = QdrantSettings(url=url, api_key=SecretStr(key) if key else None, collection_prefix=prefix)
        client = server_client(settings)
    else:
        client, settings = QdrantClient(":memory:"), QdrantSettings()
    collection = ServerCollection(client, collection_name("c", settings), settings)
    try:
        yield collection
    finally:
        collection.drop()
        collection.close()


@contextlib.contextmanager
def serving() -> Iterator[LoopbackQdrant]:
    """The server, listening on a free port of this machine."""
    server_side = LoopbackQdrant()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server_side))
    server.daemon_threads = True
    server_side.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server_side
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(loopback: LoopbackQdrant) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = urllib.parse.urlsplit(self.path)
            asked = dict(urllib.parse.parse_qsl(parts.query))
            body = json.loads(raw) if raw else None
            with loopback.lock:
                loopback.calls.append((self.command, parts.path, asked, body))
                loopback.keys.add(self.headers.get("api-key"))
                status, result = loopback.status, None
                if status == 200:
                    try:
                        result = _result(loopback.engine, self.command, urllib.parse.unquote(parts.path), body)
                    except (KeyError, ValueError):  # no such call, no such collection
                        status = 404
            time.sleep(loopback.delay_seconds)
            told = {"status": "ok" if status == 200 else {"error": "refused"}, "time": 0.0, "result": result}
            answer = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError):  # who gave up waiting
                self.wfile.write(answer)

        def do_GET(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    return Handler


def _result(engine: QdrantClient, method: str, path: str, body: Any) -> Any:
    if (method, path) == ("GET", "/collections"):
        return engine.get_collections().model_dump(mode="json")
    if (method, path) == ("GET", "/aliases"):
        return engine.get_aliases().model_dump(mode="json")
    if (method, path) == ("POST", "/collections/aliases"):
        return engine.update_collection_aliases(models.ChangeAliasesOperation.model_validate(body).actions)
    name, call = re.fullmatch(r"/collections/([^/]+)(/.*)?", path).groups()  # type: ignore[union-attr]
    done = {"operation_id": 1, "status": "completed"}
    match method, call:
        case "GET", "/exists":
            return {"exists": engine.collection_exists(name)}
        case "PUT", None:
            wanted = models.CreateCollection.model_validate(body)
            return engine.create_collection(
                name, vectors_config=wanted.vectors, sparse_vectors_config=wanted.sparse_vectors
            )
        case "DELETE", None:
            return engine.delete_collection(name)
        case "PUT", "/index":
            models.CreateFieldIndex.model_validate(body)
            return done
        case "PUT", "/points":
            engine.upsert(name, models.PointsList.model_validate(body).points)
            return done
        case "POST", "/points/payload":
            change = models.SetPayload.model_validate(body)
            engine.set_payload(name, change.payload, points=change.filter)
            return done
        case "POST", "/points/payload/delete":
            drop = models.DeletePayload.model_validate(body)
            engine.delete_payload(name, drop.keys, points=drop.filter)
            return done
        case "POST", "/points/delete":
            engine.delete(name, models.FilterSelector.model_validate(body))
            return done
        case "POST", "/points/query/batch":
            requests = models.QueryRequestBatch.model_validate(body).searches
            return [one.model_dump(mode="json") for one in engine.query_batch_points(name, requests)]
        case "POST", "/points/scroll":
            scroll = models.ScrollRequest.model_validate(body)
            points, following = engine.scroll(
                name,
                scroll_filter=scroll.filter,
                limit=scroll.limit or 10,
                offset=scroll.offset,
                with_payload=scroll.with_payload or False,
                with_vectors=scroll.with_vector or False,
            )
            return {"points": _dumped(points), "next_page_offset": following}
        case "POST", "/points":
            wanted_points = models.PointRequest.model_validate(body)
            return _dumped(engine.retrieve(name, wanted_points.ids, with_payload=True))
        case "POST", "/points/count":
            counted = models.CountRequest.model_validate(body)
            return {"count": engine.count(name, counted.filter, exact=counted.exact or False).count}
        case _:
            raise KeyError(path)


def _dumped(points: list[models.Record]) -> Any:
    return TypeAdapter(list[models.Record]).dump_python(points, mode="json")
