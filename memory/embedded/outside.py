"""Cache folders of an embedded memory, the addresses that it may reach, and the secrets for them.

`rag_config.json` lies in the repository, which others may have written. It must not be able to send a project's memory,
or a secret of the environment, to an address of its choice. So it may name addresses of this machine freely, others
only where the user's environment allows them, and only secrets whose names mark them as memory's.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from sluice.contracts.document import sha256_text
from sluice.contracts.errors import InvalidSetting, PolicyRefused

ALLOWED = "SLUICE_MEMORY_ALLOW"
"""Environment variable that lists the allowed addresses, as `host:port`, separated by commas."""
SECRET_PREFIX = "SLUICE_MEMORY_"  # noqa: S105 - of the names of variables
_OWN_HOSTS = frozenset(("localhost", "127.0.0.1", "::1"))


def require_allowed(field: str, url: str) -> None:
    """Raise `PolicyRefused` unless the address is of this machine or the environment allows it.

    Raises `InvalidSetting` if `url` is not an HTTP address.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        host = parts.hostname or ""
    except (ValueError, KeyError) as error:
        raise InvalidSetting(field, f"{url!r} is no address", "write it as http://127.0.0.1:11434/v1") from error
    allowed = {entry.strip() for entry in os.environ.get(ALLOWED, "").split(",")}
    if host not in _OWN_HOSTS and f"{host}:{port}" not in allowed:
        raise PolicyRefused(field, f"{host}:{port} is not of this machine", f"{ALLOWED}={host}:{port}")


def read_secret(of: str, url: str, variable: str | None) -> SecretStr | None:
    """Return the secret for an address, read from the environment's `variable`; None where none is named.

    The part `of` of the configuration, like `embedder`, names it. Raises `PolicyRefused` if the address is not allowed,
    and `InvalidSetting` if the variable's name lacks `SECRET_PREFIX` or it is not set.
    """
    require_allowed(f"{of}.url", url)
    if variable is None:
        return None
    field = f"{of}.key_variable"
    if not variable.startswith(SECRET_PREFIX):
        raise InvalidSetting(field, f"{variable} is not meant for memory", f"use a name that begins {SECRET_PREFIX}")
    value = os.environ.get(variable)
    if not value:
        raise InvalidSetting(field, f"{variable} is not set", "set it in the environment, or name none")
    return SecretStr(value)


PRIVATE_FOLDER = 0o700
"""Mode of memory's folders: what is remembered of a project is its user's alone."""


def index_folder(memory_folder: Path) -> Path:
    """Return the folder of the index: beside `db/memory`, else in the folder of the journals."""
    is_usual = memory_folder.name == "memory" and memory_folder.parent.name == "db"
    return memory_folder.parent / "index" if is_usual else memory_folder / "index"


def folder_of_model(index: Path, fingerprint: str) -> Path:
    """Return the folder of one model's vectors: programs with different models never mix their vectors."""
    return index / sha256_text(fingerprint)[:12]


def make_index_folder(folder: Path) -> None:
    """Make the folder of the index for its user alone, with a `.gitignore` that excludes it."""
    folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    ignored = folder / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n")
        ignored.chmod(0o600)


def usual_model_folder() -> Path:
    """Return the local model's folder: `sluice/models` in the user's cache (XDG Base Directory Specification)."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(home) if home.startswith("/") else Path.home() / ".cache"
    return cache / "sluice" / "models"
