"""A process that has the engine loaded and forks one child for each question, so that none waits for the loading.

It is started with an empty environment and holds no secret, no thread and no file of the instance. Over its standard
input, a socket, it takes requests: four bytes of length, then JSON, and with them the pipe that the child answers on.
Back comes a byte, and a descriptor of the child (pidfd_open(2)) by which it can be killed. It ends with its socket.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import sys

LENGTH = struct.Struct("<I")
FORKED, FAILED = b"+", b"-"


def main() -> int:
    """Serve until the other end of the socket is closed."""
    import ladybug._lbug  # noqa: F401 - its children can load nothing any more

    import sluice.graph.cypher.child  # noqa: F401

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=os.dup(0))
    connection.sendall(FORKED)
    while True:
        # Wakes up now and then to bury children that ended.
        ready, _, _ = select.select([connection], [], [], 1.0)
        _bury()
        if ready and not _serve(connection):
            return 0


def _serve(connection: socket.socket) -> bool:
    head, descriptors, _, _ = socket.recv_fds(connection, LENGTH.size, 1)
    if not head:
        return False
    head += _receive(connection, LENGTH.size - len(head))
    body = _receive(connection, LENGTH.unpack(head)[0])
    pipe = descriptors[0]
    try:
        process = os.fork()
    except OSError:
        os.close(pipe)
        connection.sendall(FAILED)
        return True
    if process == 0:
        _become_child(body, pipe)
    os.close(pipe)
    handle = os.pidfd_open(process)
    socket.send_fds(connection, [FORKED], [handle])
    os.close(handle)
    return True


def _become_child(body: bytes, pipe: int) -> None:
    from sluice.graph.cypher.child import answer

    try:
        os.setsid()
        answer(json.loads(body), pipe)
    finally:
        os._exit(0)


def _receive(connection: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = connection.recv(min(length, 1 << 16))
        if not part:
            sys.exit(0)
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _bury() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    sys.exit(main())
