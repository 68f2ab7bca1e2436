"""The site that all contestants crawl: files of a folder on loopback, from a process of its own.

python -m bench.crawl.site FOLDER
"""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.repository import REPOSITORY


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The base address of the files of `folder`, as long as it lasts."""
    command = [sys.executable, "-m", "bench.crawl.site", str(folder)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


class _Quiet(SimpleHTTPRequestHandler):
    """Files, and no word about them."""

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


def main() -> None:
    """Serve until terminated; the address is the first line of what is printed."""
    handler = functools.partial(_Quiet, directory=sys.argv[1])
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
