"""A server that speaks Bolt over real sockets: handshake (5.x and manifest version 1), messages, states, failures.

It answers the statements of `graph.servers` by a small store in memory and understands no Cypher besides; what
it does not know is a syntax error, as a real server would say of another's dialect.
"""

from __future__ import annotations

import contextlib
import copy
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.bolt.packstream import Structure, pack, unpack
from tests.support.bolt.store import Refused, Store, Table

MAGIC = b"\x60\x60\xb0\x17"
HELLO, GOODBYE, RESET, RUN, BEGIN, COMMIT, ROLLBACK, DISCARD, PULL = (
    0x01,
    0x02,
    0x0F,
    0x10,
    0x11,
    0x12,
    0x13,
    0x2F,
    0x3F,
)
TELEMETRY, ROUTE, LOGON, LOGOFF = 0x54, 0x66, 0x6A, 0x6B
SUCCESS, RECORD, IGNORED, FAILURE = 0x70, 0x71, 0x7E, 0x7F
NEWEST = (5, 8)


@dataclass
class Behaviour:
    """How the server is today. May be changed while it runs."""

    agent: str = "Neo4j/5.26.0"
    user: str = "neo4j"
    password: str = "right"
    manifest: bool = True
    """Whether it answers the handshake by a manifest; by one version otherwise, as older servers do."""
    delay_seconds: float = 0.0
    """Before it answers a statement."""
    is_silent: bool = False
    """Takes connections and says nothing."""
    hang_up_at: str | None = None
    """Closes the connection in place of running a statement that holds this."""
    fail_times: int = 0
    """So many transactions more end in a transient error when they are committed."""
    members: tuple[str, ...] = ()
    """What a routing table names; itself where nothing is given."""


@dataclass
class FakeBoltServer:
    """One server with its store, and what it saw."""

    store: Store
    behaviour: Behaviour = field(default_factory=Behaviour)
    statements: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """Mode, text and parameters of each that was run."""
    ended: list[str] = field(default_factory=list)
    """`commit`, `rollback` or `lost` of each transaction, in order."""
    modes: list[str] = field(default_factory=list)
    """The mode of each explicit transaction."""
    said: list[dict[str, Any]] = field(default_factory=list)
    """HELLO and LOGON as they came."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"bolt://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def serving(self) -> Iterator[FakeBoltServer]:
        stop = threading.Event()
        open_sockets: set[socket.socket] = set()

        class Handler(socketserver.BaseRequestHandler):
            def handle(handler) -> None:  # noqa: N805 - `self` is the fake
                open_sockets.add(handler.request)
                handler.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with contextlib.suppress(OSError, EOFError):
                    _Connection(self, handler.request, stop).serve()

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        with Server(("127.0.0.1", self.port), Handler) as server:
            self.port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
            thread.start()
            try:
                yield self
            finally:
                stop.set()
                for one in open_sockets:
                    with contextlib.suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)
                server.shutdown()
                thread.join()


class _Connection:
    def __init__(self, fake: FakeBoltServer, link: socket.socket, stop: threading.Event) -> None:
        self._fake, self._link, self._stop = fake, link, stop
        self._state = "connected"
        self._results: dict[int, Iterator[list[Any]]] = {}
        self._last_result = -1
        self._before: Any = None
        self._deadline: float | None = None
        self._mode = "w"
        self._version = (0, 0)

    def serve(self) -> None:
        if self._fake.behaviour.is_silent:
            self._stop.wait()
            return
        self._handshake()
        try:
            while True:
                message = unpack(self._receive())
                if message.tag == GOODBYE:
                    return
                self._answer(message)
        finally:
            if self._before is not None:
                self._end("lost")

    # -- messages -------------------------------------------------------------------------------

    def _handshake(self) -> None:
        if self._take(4) != MAGIC:
            raise EOFError
        offers = [self._take(4) for _ in range(4)]
        major, minor = NEWEST
        if self._fake.behaviour.manifest and b"\x00\x00\x01\xff" in offers:
            ranges = bytes((0, 8, minor, major)) + bytes((0, 2, 4, 4))
            self._link.sendall(b"\x00\x00\x01\xff" + b"\x02" + ranges + b"\x00")
            chosen = self._take(4)
            self._version = NEWEST
            if chosen[3] != major or self._take(1) != b"\x00":
                raise EOFError
            return
        if not any(offer[3] == major and offer[2] >= 4 >= offer[2] - offer[1] for offer in offers):
            self._link.sendall(b"\x00\x00\x00\x00")
            raise EOFError
        self._version = (major, 4)
        self._link.sendall(bytes((0, 0, 4, major)))

    def _answer(self, message: Structure) -> None:
        tag, fields = message
        if tag == RESET:
            if self._before is not None:
                self._end("rollback")
            self._results.clear()
            self._state = "ready"
            return self._send(SUCCESS, {})
        if self._state == "failed":
            return self._send(IGNORED)
        try:
            if tag == HELLO:
                self._fake.said.append(fields[0])
                self._state = "authentication"
                return self._send(SUCCESS, {"server": self._fake.behaviour.agent, "connection_id": "bolt-1"})
            if tag == LOGON:
                return self._log_on(fields[0])
            if self._state == "authentication":
                raise Refused("Neo.ClientError.Request.Invalid", "not signed in")
            return self._work(tag, fields)
        except Refused as refused:
            if self._before is not None:
                self._end("rollback")
            self._state = "failed"
            self._send(FAILURE, self._told(refused))
            if refused.code.startswith("Neo.ClientError.Security"):
                raise EOFError from refused
        return None

    def _told(self, refused: Refused) -> dict[str, Any]:
        if self._version < (5, 7):
            return {"code": refused.code, "message": refused.message}
        gql = {"gql_status": "50N42", "description": "error: general processing exception"}
        return {"neo4j_code": refused.code, "message": refused.message, **gql, "diagnostic_record": {}}

    def _log_on(self, said: dict[str, Any]) -> None:
        wanted = self._fake.behaviour
        self._fake.said.append({name: value for name, value in said.items() if name != "credentials"})
        if (said.get("principal"), said.get("credentials")) != (wanted.user, wanted.password):
            code = "Neo.ClientError.Security.Unauthorized"
            raise Refused(code, "The client is unauthorized due to authentication failure.")
        self._state = "ready"
        self._send(SUCCESS, {})

    def _work(self, tag: int, fields: list[Any]) -> None:
        match tag:
            case 0x54 | 0x6B:  # TELEMETRY, LOGOFF
                self._send(SUCCESS, {})
            case 0x66:
                own = f"127.0.0.1:{self._fake.port}"
                others = list(self._fake.behaviour.members or (own,))
                table = [{"role": "ROUTE", "addresses": [own]}]
                table += [{"role": role, "addresses": others} for role in ("READ", "WRITE")]
                self._send(SUCCESS, {"rt": {"ttl": 300, "db": "neo4j", "servers": table}})
            case 0x11:
                self._begin(fields[0])
                self._send(SUCCESS, {})
            case 0x12:
                if self._fake.behaviour.fail_times > 0:
                    self._fake.behaviour.fail_times -= 1
                    raise Refused("Neo.TransientError.Transaction.DeadlockDetected", "a deadlock")
                self._check_time()
                self._end("commit")
                self._send(SUCCESS, {"bookmark": "b:1"})
            case 0x13:
                self._end("rollback")
                self._send(SUCCESS, {})
            case 0x10:
                self._run(*fields)
            case 0x3F | 0x2F:
                self._pull(fields[0], discard=tag == DISCARD)
            case _:
                raise Refused("Neo.ClientError.Request.Invalid", f"message {tag:#x}")

    def _begin(self, extra: dict[str, Any]) -> None:
        self._fake.store.guard.acquire()
        self._before = copy.deepcopy(self._fake.store.content)
        self._mode = extra.get("mode", "w")
        self._fake.modes.append(self._mode)
        self._limit(extra)

    def _limit(self, extra: dict[str, Any]) -> None:
        given = extra.get("tx_timeout")
        self._deadline = time.monotonic() + given / 1000 if given else None

    def _end(self, how: str) -> None:
        if how != "commit":
            self._fake.store.content = self._before
        self._before = None
        self._results.clear()
        self._fake.ended.append(how)
        self._fake.store.guard.release()

    def _run(self, text: str, parameters: dict[str, Any], extra: dict[str, Any]) -> None:
        behaviour = self._fake.behaviour
        is_alone = self._before is None
        mode = extra.get("mode", "w") if is_alone else self._mode
        self._fake.statements.append((mode, text, parameters))
        if behaviour.hang_up_at and behaviour.hang_up_at in text:
            raise EOFError
        if is_alone:
            self._limit(extra)
        self._wait(behaviour.delay_seconds)
        self._check_time()
        with self._fake.store.guard if is_alone else contextlib.nullcontext():
            table: Table = self._fake.store.run(text, parameters, in_transaction=not is_alone)
        self._last_result += 1
        self._results[self._last_result] = iter(table.rows)
        said: dict[str, Any] = {"fields": list(table.columns), "t_first": 0}
        if not is_alone:
            said["qid"] = self._last_result
        self._send(SUCCESS, said)

    def _pull(self, extra: dict[str, Any], *, discard: bool) -> None:
        asked = extra.get("qid", -1)
        number = self._last_result if asked == -1 else asked
        rows = self._results.get(number, iter(()))
        left = extra["n"]
        if discard and left == -1:
            self._results.pop(number, None)
            rows = iter(())
        for row in rows:
            if not discard:
                self._send(RECORD, row)
            left -= 1
            if left == 0:
                return self._send(SUCCESS, {"has_more": True})
        return self._send(SUCCESS, {"type": "r", "t_last": 0, "db": "neo4j"})

    def _wait(self, seconds: float) -> None:
        if seconds:
            left = seconds if self._deadline is None else min(seconds, max(0.0, self._deadline - time.monotonic()))
            if self._stop.wait(left):
                raise EOFError

    def _check_time(self) -> None:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            code = "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration"
            raise Refused(code, "The transaction has been terminated.")

    # -- chunks ---------------------------------------------------------------------------------

    def _send(self, tag: int, *fields: Any) -> None:
        data = pack(Structure(tag, list(fields)))
        pieces = [data[start : start + 0xFFFF] for start in range(0, len(data), 0xFFFF)]
        self._link.sendall(b"".join(struct.pack(">H", len(one)) + one for one in pieces) + b"\x00\x00")

    def _receive(self) -> bytes:
        message = b""
        while True:
            (size,) = struct.unpack(">H", self._take(2))
            if size:
                message += self._take(size)
            elif message:
                return message

    def _take(self, size: int) -> bytes:
        taken = b""
        while len(taken) < size:
            more = self._link.recv(size - len(taken))
            if not more:
                raise EOFError
            taken += more
        return taken
