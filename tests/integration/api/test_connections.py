"""What one connection may send and hold before any key is known: the server's own socket, spoken to byte by byte."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.api import connections
from tests.support.served import served
from tests.support.valkey import Valkey

PIECE = b"a" * 65_536
ENOUGH_PIECES = 1_000
"""65 MB: whoever takes so much takes anything."""


@pytest.fixture
def port(valkey: Valkey) -> Iterator[int]:
    with served(valkey.settings) as address:
        yield int(address.rpartition(":")[2])


def opened(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def sent_until_refused(port: int, first: bytes, piece: bytes) -> int:
    """Send `first`, then `piece` again and again; return how many pieces were taken before the connection closed."""
    with opened(port) as client:
        client.sendall(first)
        for sent in range(ENOUGH_PIECES):
            try:
                client.sendall(piece)
            except OSError:
                return sent
    return ENOUGH_PIECES


def answer_to(port: int, *pieces: bytes) -> tuple[int, dict[str, Any], bool]:
    """Return status and problem, and whether the connection was closed behind it."""
    with opened(port) as client:
        for piece in pieces:
            client.sendall(piece)
        answer = http.client.HTTPResponse(client)
        answer.begin()
        body = json.loads(answer.read())
        return answer.status, body, is_closed(client)


def is_closed(client: socket.socket) -> bool:
    """Wait until the other side has closed, whatever was left of what it was sent."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


GET, POST = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"POST /v1/gate HTTP/1.1\r\nHost: 127.0.0.1\r\n"
CHUNKED = POST + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "fields": (GET, b"".join(b"X-%d: %b\r\n" % (i, b"v" * 100) for i in range(600))),
    "a value": (GET + b"X: ", PIECE),
    "a name": (GET, PIECE),
    "a path": (b"GET /", PIECE),
    "trailers": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"".join(b"X-%d: %b\r\n" % (i, b"v" * 100) for i in range(600))),
    "a trailer": (CHUNKED + b"2\r\n{}\r\n0\r\nX: ", PIECE),
    "a chunk's extension": (CHUNKED + b"2;x=", PIECE),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_head_without_end_is_cut(port: int, what: str) -> None:
    assert sent_until_refused(port, *ENDLESS[what]) < ENOUGH_PIECES / 10


def test_a_head_that_is_too_large_is_told_so(port: int) -> None:
    status, problem, closed = answer_to(port, GET + b"X: ", b"a" * 300_000)
    assert (status, problem["code"], closed) == (431, "too_large", True)


def test_what_is_no_http_gets_a_problem_as_well(port: int) -> None:
    status, problem, closed = answer_to(port, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
    assert (status, problem["code"], closed) == (400, "invalid_input", True)


def test_the_longest_question_of_a_url_fits(port: int) -> None:
    query = "%F0%9F%90%98" * 5_400
    path = f"/v1/memory/recall?project=/p&feature=f&query={query}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    assert connection.getresponse().status == 200
    connection.close()


def test_a_body_that_is_announced_or_found_to_be_too_large_is_refused(port: int) -> None:
    fields = POST + b"Content-Type: application/json\r\n"
    with opened(port) as client:
        client.sendall(fields + b"Content-Length: 33000000\r\n\r\n{")
        answer = http.client.HTTPResponse(client)
        answer.begin()
        assert (answer.status, json.loads(answer.read())["code"]) == (413, "too_large")
    with opened(port) as client:
        client.sendall(CHUNKED)
        for _ in range(33):
            client.sendall(b"%x\r\n%b\r\n" % (1_000_000, b" " * 1_000_000))
        answer = http.client.HTTPResponse(client)
        answer.begin()
        assert (answer.status, json.loads(answer.read())["code"]) == (413, "too_large")
        drip(client)


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        (b"GET /hea", "head"),
        (GET + b"X: ", "head"),
        (POST + b"Content-Length: 100\r\n\r\n{", "body"),
        (CHUNKED + b"2\r\n{", "body"),
    ],
)
def test_half_a_request_ends_with_408(port: int, monkeypatch: pytest.MonkeyPatch, sent: bytes, what: str) -> None:
    monkeypatch.setattr(connections, f"{what.upper()}_SECONDS", 0.2)
    status, problem, closed = answer_to(port, sent)
    assert (status, problem["code"], closed) == (408, "timed_out", True)
    assert what in problem["message"]


def test_bytes_that_drip_do_not_hold_a_request_open(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.5)
    with opened(port) as client:
        client.sendall(POST + b"Content-Length: 1000\r\n\r\n")
        drip(client)
        assert b" 408 " in client.recv(100)


def drip(client: socket.socket) -> None:
    """Send a byte now and then, until the other side has closed; give up after many times its patience."""
    client.setblocking(False)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            client.send(b"x")
            client.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            time.sleep(0.05)
        except OSError:
            return
        else:
            return
    pytest.fail("it is held open for as long as a byte comes now and then")


def test_a_large_body_that_keeps_coming_has_longer(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.2)
    monkeypatch.setattr(connections, "BODY_BYTES_PER_SECOND", 1_000)
    body = json.dumps({"query": "x" * 20_000}).encode()  # refused (422) once it was read
    with opened(port) as client:
        client.sendall(POST + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
        for start in range(0, len(body), 5_000):
            client.sendall(body[start : start + 5_000])
            time.sleep(0.5)
        assert b" 422 " in client.recv(100)


@pytest.mark.parametrize("sent", [b"", b"\r\n", GET + b"\r\n\r\n"], ids=["nothing", "line end", "one more behind"])
def test_a_connection_that_begins_no_request_is_closed(port: int, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    with opened(port) as client:
        client.sendall(sent)
        time.sleep(1)
        with contextlib.suppress(OSError):
            client.sendall(b"\r\n")
        while client.recv(10_000):
            pass


def test_a_response_that_nobody_reads_is_dropped(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.5)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.settimeout(60)
        client.connect(("127.0.0.1", port))
        client.sendall((b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") * 30)
        own = client.getsockname()[1]
        until = time.monotonic() + 30
        while is_held(own) and time.monotonic() < until:
            time.sleep(0.1)
        assert not is_held(own)


def is_held(client_port: int) -> bool:
    """Return whether this machine holds the server's end of the client's connection open."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[2].endswith(f":{client_port:04X}") and row[3] == "01" for row in rows)


def test_the_oldest_waiting_connections_of_one_peer_make_room(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_WAITING", 8)
    clients = [opened(port) for _ in range(12)]
    try:
        assert clients[0].recv(1) == b"", "the oldest was closed"
        clients[-1].sendall(GET + b"\r\n")
        assert clients[-1].recv(8) == b"HTTP/1.1", "the newest is served"
    finally:
        for client in clients:
            client.close()


def test_hundreds_of_requests_in_line_are_not_kept(port: int) -> None:
    with opened(port) as client:
        client.sendall((b"GET /v1/nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") * 1_000)
        answer, answers = client.recv(65_536), b""
        while answer:
            answers += answer
            try:
                answer = client.recv(65_536)
            except ConnectionResetError:
                break
    assert answers.count(b"HTTP/1.1 404") < 100


def test_a_few_requests_in_line_are_answered_in_order(port: int) -> None:
    paths, host = [b"/v1/nothing", b"/openapi.json", b"/v1/nothing", b"/v1/runs"], b"HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    with opened(port) as client, client.makefile("rb") as answers:
        client.sendall(b"".join(b"GET %b %b\r\n" % (path, host) for path in paths))
        client.sendall(b"GET /v1/nothing %bConnection: close\r\n\r\n" % host)
        statuses = re.findall(rb"HTTP/1\.1 (\d+)", answers.read())
    assert statuses == [b"404", b"200", b"404", b"200", b"404"]


def test_nothing_of_a_body_is_read_without_a_key(valkey: Valkey) -> None:
    settings = valkey.settings.model_copy(update={"require_api_key": True})
    with served(settings) as address, opened(int(address.rpartition(":")[2])) as client:
        client.sendall(POST + b"Content-Length: 30000000\r\n\r\n")
        answer = http.client.HTTPResponse(client)
        answer.begin()
        assert (answer.status, json.loads(answer.read())["code"]) == (401, "unauthorized")


def test_a_body_is_not_read_on_for_long_once_it_was_refused(port: int) -> None:
    fields = b"POST /v1/gate HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example\r\n"
    with opened(port) as client:
        client.sendall(fields + b"Content-Length: 30000000\r\n\r\n{")
        assert b" 403 " in client.recv(10_000)
        drip(client)


def test_a_client_that_sends_all_before_it_reads_gets_its_answer(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(2):
        connection.request("POST", "/v1/gate", b"x" * 20_000_000, {"Origin": "https://evil.example"})
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["code"]) == (403, "forbidden")
    connection.close()


def test_a_head_alone_leaves_the_connection_open_and_a_strange_run_breaks_no_head(port: int) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as client:
        for method, path, status in [
            ("HEAD", "/v1/runs", 200),
            ("GET", "/v1/runs/%0d%0aX-Mine:%201", 404),
            ("GET", "/v1/runs/%F0%9F%A6%A6/trace", 404),
            ("HEAD", "/v1/runs/run_none", 404),
            ("GET", "/livez", 200),
        ]:
            client.request(method, path)
            answer = client.getresponse()
            answer.read()
            assert (answer.status, answer.getheader("X-Mine"), answer.will_close) == (status, None, False), path
            assert answer.getheader("Sluice-Run-Id") == ("run_none" if path.endswith("run_none") else None)
