"""A real OpenTelemetry collector, and a receiver behind it that decodes what it passes on by OTLP/HTTP.

The collector is Rotel, whose program comes in its package on PyPI. The receiver reads the protocol's own messages.
"""

from __future__ import annotations

import gzip
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.instance import free_port
from tests.support.waiting import until


@dataclass
class Collected:
    """The spans that came through the collector, each with the service that made it. `url` is the collector's."""

    url: str
    spans: list[tuple[str, Span]] = field(default_factory=list)

    def of_trace(self, trace_id: str) -> list[Span]:
        """The spans of one trace, by their beginning."""
        found = [span for _, span in list(self.spans) if span.trace_id.hex() == trace_id]
        return sorted(found, key=lambda span: span.start_time_unix_nano)


def attributes(span: Span) -> dict[str, Any]:
    """The span's attributes as Python has them."""
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes}


@contextmanager
def collecting(folder: Path) -> Iterator[Collected]:
    """A collector that takes OTLP/HTTP, and passes on what it got to a receiver in this process."""
    folder.mkdir(parents=True, exist_ok=True)
    http, grpc = free_port(), free_port()
    collected = Collected(f"http://127.0.0.1:{http}")

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                service = next(
                    one.value.string_value for one in resource.resource.attributes if one.key == "service.name"
                )
                collected.spans += [(service, span) for scope in resource.scope_spans for span in scope.spans]
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing: the test reads the spans."""

    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=receiver.serve_forever, daemon=True)
    thread.start()
    command = [
        *(str(files("rotel") / "rotel-agent"), "start", "--exporter", "otlp"),
        *("--otlp-exporter-protocol", "http", "--otlp-exporter-endpoint", f"http://127.0.0.1:{receiver.server_port}"),
        *("--otlp-http-endpoint", f"127.0.0.1:{http}", "--otlp-grpc-endpoint", f"127.0.0.1:{grpc}"),
        *("--pid-file", str(folder / "collector.pid"), "--log-file", str(folder / "collector.log")),
    ]
    with (folder / "collector.out").open("wb") as log:
        running = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        until(lambda: _listens(http, running))
        yield collected
    finally:
        running.terminate()
        running.wait(20)
        receiver.shutdown()
        thread.join()
        receiver.server_close()


def _listens(port: int, running: subprocess.Popen[bytes]) -> bool:
    import socket

    assert running.poll() is None, "the collector has ended"
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
