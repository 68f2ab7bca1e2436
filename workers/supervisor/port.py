"""Whether the HTTP interface can have its port."""

from __future__ import annotations

import socket

from sluice.contracts.errors import InvalidSetting


def require_free_port(host: str, port: int) -> None:
    """Find out now, and not from a process that dies again and again, whether the port is free.

    Raises:
        InvalidSetting: it is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            problem = f"{host}:{port} cannot be had ({error.strerror})"
            raise InvalidSetting("http_port", problem, "set another one with SLUICE_HTTP_PORT") from error
