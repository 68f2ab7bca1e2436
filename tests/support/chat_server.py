"""A `/chat/completions` endpoint on loopback, with the shape of OpenAI's answers; a function gives the words."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Say = Callable[[str], str | int]
"""From all that was asked, the messages one below the other, to the model's words, or to the status of a refusal."""


class ChatServer:
    """What was asked of the model, and where it answers."""

    def __init__(self, say: Say, port: int) -> None:
        self.say = say
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self.host_and_port = f"127.0.0.1:{port}"
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []


@contextmanager
def chat_server(say: Say) -> Iterator[ChatServer]:
    """A model that says what `say` gives."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    chat = ChatServer(say, server.server_port)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            chat.requests.append(request)
            chat.keys.append(self.headers.get("authorization"))
            said = chat.say("\n".join(str(message["content"]) for message in request["messages"]))
            status, body = (said, {"error": {"message": "no"}}) if isinstance(said, int) else (200, _completion(said))
            encoded = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        def log_message(self, *_: object) -> None:
            return

    server.RequestHandlerClass = Handler
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()


def _completion(words: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": words, "refusal": None, "annotations": []}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "judge-1",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1_000},
    }
