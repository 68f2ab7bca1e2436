"""A git server on loopback: git's own smart-HTTP backend behind a small HTTP server."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class GitServer:
    """Serves the repositories below `root`. `requests` are the paths that were asked for; `delay_seconds` slows it."""

    def __init__(self, root: Path) -> None:
        self.requests: list[str] = []
        self.delay_seconds = 0.0
        self._backend = Path(_exec_path()) / "git-http-backend"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(root))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self, root: Path) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._serve(b"")

            def do_POST(self) -> None:
                self._serve(self.rfile.read(int(self.headers.get("Content-Length", 0))))

            def log_message(self, *_: object) -> None:
                pass

            def _serve(self, body: bytes) -> None:
                server.requests.append(self.path)
                time.sleep(server.delay_seconds)
                path, _, query = self.path.partition("?")
                environment = {
                    "PATH": os.environ["PATH"],
                    "GIT_PROJECT_ROOT": str(root),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                }
                answer = subprocess.run([server._backend], input=body, env=environment, capture_output=True).stdout
                head, _, content = answer.partition(b"\r\n\r\n")
                fields = dict(line.decode().split(": ", 1) for line in head.split(b"\r\n") if b": " in line)
                self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(content)
                self.close_connection = True

        return Handler


def _exec_path() -> str:
    return subprocess.run(["git", "--exec-path"], check=True, capture_output=True, text=True).stdout.strip()
