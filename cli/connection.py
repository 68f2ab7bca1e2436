"""The connection of commands to the running instance: over HTTP, with its address and key from its data directory.

Commands that only query and operate import nothing of the server: importing its packages takes longer than most
answers. So their answers are `Record`s, not models, and `cli.command` lists the values of options.
"""

from __future__ import annotations

import getpass
import http.client
import json
import os
import socket
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2
import typer

from sluice.cli.output import INTERRUPTED, errors_told, warn
from sluice.workers.data_dir import API_FILE, config_file, default_data_dir
from sluice_client import SluiceClient
from sluice_client.errors import InvalidInput, TimedOut, Unavailable

if TYPE_CHECKING:
    from sluice_client.models import Event, RunView

DEFAULT_PORT = 8080
CONNECT_SECONDS = 1.0
ENDED = frozenset({"finished", "failed", "cancelled"})
"""The final states of a run."""
_MOMENTS = ("_at", "_seen", "_since")


class Record(dict[str, Any]):
    """A JSON object whose fields are attributes. A missing field is None; fields of time become `datetime`s."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_", "model_")):  # an attribute of models
            raise AttributeError(name)
        value = self.get(name)
        if isinstance(value, str) and (name.endswith(_MOMENTS) or name in ("at", "since", "until")):
            try:
                return datetime.fromisoformat(value)
            except ValueError:
                return value
        return value


class Part(Record):
    """A part of a list, with `data` and `next_cursor`. Iterating over it goes on to the parts that follow."""

    def following(self, ask: Callable[[str], Any]) -> None:
        """Set how the part after a cursor is asked for."""
        vars(self)["_ask"] = ask

    def __iter__(self) -> Iterator[Any]:
        part = self
        while True:
            yield from part["data"]
            if not part["next_cursor"]:
                return
            part = vars(part)["_ask"](part["next_cursor"])


class Connection(SluiceClient):
    """A client whose answers are records in place of models, as importing pydantic takes a fifth of a second."""

    def parse(self, kind: str, content: bytes) -> Any:
        """Decode `content` into a string, into records, or not at all."""
        if kind in ("str", "bytes"):
            return content.decode("utf-8") if kind == "str" else content
        told = json.loads(content, object_hook=Record)
        return Part(told) if kind.startswith("Page[") else told


class OwnMachine(httpx2.BaseTransport):
    """HTTP transport to this machine by the standard library, without TLS. httpx2's own imports HTTP/2 and asyncio,
    which take a fifth of the time of most commands."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. The connection is closed with the response."""
        times: dict[str, float | None] = request.extensions["timeout"]
        connection = http.client.HTTPConnection(request.url.host, request.url.port or 80, timeout=times["connect"])
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise httpx2.ConnectError(str(error)) from error
        connection.sock.settimeout(times["read"])
        with _transport_errors():
            target = request.url.raw_path.decode("ascii")
            connection.request(request.method, target, request.read(), dict(request.headers))
            response = connection.getresponse()
        return httpx2.Response(response.status, headers=response.getheaders(), stream=_Body(connection, response))


class _Body(httpx2.SyncByteStream):
    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection, self._response = connection, response

    def __iter__(self) -> Iterator[bytes]:
        with _transport_errors():
            while some := self._response.read1(1 << 16):
                yield some

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _transport_errors() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise httpx2.ReadTimeout(str(error)) from error
    except (OSError, http.client.HTTPException) as error:
        raise httpx2.ReadError(str(error) or repr(error)) from error


@contextmanager
def connected(*, as_json: bool = False, operator: str | None = None) -> Iterator[SluiceClient]:
    """Yield a client of the instance; errors become a message and an exit code. `operator` is recorded with every
    change, on the instance's own machine; by default it is this user."""
    with errors_told(as_json=as_json):
        url, key = whereabouts()
        headers = {"X-Sluice-Operator": operator or getpass.getuser()}
        try:
            is_here = urlsplit(url).scheme == "http" and urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")
            client = Connection(url, key, headers=headers, transport=OwnMachine() if is_here else None)
        except (httpx2.InvalidURL, ValueError) as error:
            raise wrong("url", f"{url!r} is none: {error}", "such as http://127.0.0.1:8080") from error
        with client:
            try:
                yield client
            except Unavailable as error:
                if isinstance(error.__cause__, httpx2.ConnectError):
                    raise Unavailable(f"no instance answers at {url}: start it with `sluice up`") from error
                raise


def whereabouts() -> tuple[str, str | None]:
    """Return the instance's URL, and the key to send: `SLUICE_URL` (or `--url`) and `SLUICE_API_KEY`, else those that
    the instance's HTTP interface wrote to its data directory. That key is sent nowhere else."""
    key = os.environ.get("SLUICE_API_KEY")
    if url := os.environ.get("SLUICE_URL"):
        return url, key
    if own := _announced():
        return own[0], key or own[1]
    port = str(os.environ.get("SLUICE_HTTP_PORT") or _settings_file().get("http_port") or DEFAULT_PORT)
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise wrong("http_port", f"{port!r} is no port", "set http_port in sluice.toml or SLUICE_HTTP_PORT")
    return f"http://127.0.0.1:{port}", key


def is_running() -> bool:
    """Return whether `SLUICE_URL` is set, or the instance of the data directory here takes connections."""
    if os.environ.get("SLUICE_URL"):
        return True
    own = _announced()
    if own is None:
        return False
    url = httpx2.URL(own[0])
    try:
        socket.create_connection((url.host, url.port or DEFAULT_PORT), CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _announced() -> tuple[str, str] | None:
    """Return the URL and key that the instance wrote into its data directory; None where they cannot be read."""
    try:
        told = json.loads((data_folder() / API_FILE).read_bytes())
        return str(told["url"]), str(told["key"])
    except (OSError, ValueError, KeyError):
        return None


def data_folder() -> Path:
    """Return the data directory of the instance here, without reading the other settings."""
    if named := os.environ.get("SLUICE_DATA_DIR"):
        return Path(named).expanduser().absolute()
    named = _settings_file().get("data_dir")
    return config_file().absolute().parent / Path(str(named)).expanduser() if named else default_data_dir()


def _settings_file() -> dict[str, Any]:
    try:
        return tomllib.loads(config_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


@contextmanager
def goes_on(run_id: str) -> Iterator[None]:
    """Turn an interruption of the wait for a run into a message: the run goes on, and how to see or cancel it."""
    try:
        yield
    except KeyboardInterrupt as error:
        told = f"interrupted; run {run_id} goes on. Look at it with `sluice runs {run_id}`"
        warn(f"{told}, end it with `sluice runs --cancel {run_id}`.")
        raise typer.Exit(INTERRUPTED) from error


def follow(client: SluiceClient, run_id: str, timeout_seconds: float) -> Iterator[Event]:
    """Yield the run's events as they happen, until it ends. Raises `TimedOut` if it goes on after `timeout_seconds`."""
    with goes_on(run_id):
        try:
            yield from client.events(run_id, timeout_seconds=timeout_seconds)
        except TimedOut as error:
            raise TimedOut(f"{run_id} goes on; look again with `sluice runs {run_id}`") from error


def wait_for(client: SluiceClient, run_id: str, timeout_seconds: float) -> RunView:
    """Return the run once it has ended. Raises `TimedOut` if it goes on after `timeout_seconds`."""
    for _event in follow(client, run_id, timeout_seconds):
        pass
    return client.run(run_id)


def as_record(view: Any) -> Any:
    """Return a model of the server's as the record that its HTTP interface would answer."""
    return json.loads(view.model_dump_json(), object_hook=Record)


def wrong(field: str, problem: str, remedy: str = "") -> InvalidInput:
    """Make the error for an option that cannot be used: its name, the problem, and a remedy."""
    return InvalidInput(problem, field=field, remedy=remedy or None)


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None, for a request; the server has defaults for the others."""
    return {name: value for name, value in fields.items() if value is not None}
