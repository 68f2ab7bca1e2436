"""Wake-ups over RabbitMQ, for whom `wake_up_url` names one; everything else stays in Redis or Valkey.

An instance has a topic exchange of its name, and for each stage two queues: `{instance}.{stage}` for wake-ups, and
`{instance}.{stage}.malformed` for what lay there and is none, until it is parked as a dead letter. All are durable, and
of the type that is the default of their virtual host: classic, or quorum. The messages themselves are transient: a
server that restarts forgets those of a classic queue, and the reconciler sends them again. To sync each to the disk
doubled the time of a publish (0.27 to 0.56 ms), and quorum queues need 3 to 4 ms.

What a worker has taken, the server gives to another one as soon as its connection ends.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import kombu
import redis
import structlog
from celery import Celery
from kombu.transport import pyamqp

from sluice.contracts.errors import InvalidInput, Unavailable
from sluice.contracts.event import QUEUES, Queue
from sluice.ledger.events.outbox import WakeUp
from sluice.workers.broker.keys import CONNECT_RETRIES, EXCHANGE, HANDLE_TASK, SOCKET_TIMEOUT_SECONDS, wake_up_in
from sluice.workers.broker.wake_ups import BROKER_ERRORS, Park, Result, park_item

log = structlog.get_logger(__name__)

TRANSPORT = "sluice.workers.broker.rabbit:Transport"
"""Our transport, as kombu and Celery name it."""
JSON = {"content_type": "application/json", "content_encoding": "utf-8"}


def queue_name(instance: str, stage: str) -> str:
    """Return the name of a stage's queue."""
    return f"{instance}.{stage}"


def tls_of(url: str) -> dict[str, Any] | bool:
    """Return what py-amqp is to know of TLS: for amqps:// the certificate has to be good, and of that host."""
    place = urlsplit(url)
    return place.scheme == "amqps" and {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": place.hostname}


class Channel(pyamqp.Channel):  # type: ignore[misc]  # kombu is untyped
    """A channel on which consumers get wake-ups alone."""

    def basic_consume(self, queue: str = "", *arguments: Any, callback: Callable[[Any], Any], **named: Any) -> Any:
        """Begin to take from a queue. What is no wake-up of its stage moves to the queue of malformed items; of a
        wake-up only the event id is taken, so no foreign header reaches Celery."""
        instance, _, stage = queue.rpartition(".")

        def admit(message: Any) -> None:
            item = _item_of(message, instance)
            try:
                event_id = wake_up_in(item, stage)
            except InvalidInput as refusal:
                log.warning("item_refused", stage=stage, item_bytes=len(item), error=str(refusal))
                kept = self.prepare_message(item, properties={"delivery_mode": 2})
                self.basic_publish(kept, "", f"{queue}.malformed")
                self.basic_ack(message.delivery_tag)
            else:
                headers = _headers(f"{event_id}.{message.delivery_tag}")
                message.body, message.properties = _body(event_id), JSON | {"application_headers": headers}
                callback(message)

        return super().basic_consume(queue, *arguments, callback=admit, **named)


class Connection(pyamqp.Connection):  # type: ignore[misc]
    """A connection with our channels."""

    Channel = Channel


class Transport(pyamqp.Transport):  # type: ignore[misc]
    """Kombu's transport with our channels."""

    Connection = Connection

    def qos_semantics_matches_spec(self, connection: Any) -> bool:
        """Let Celery limit what each consumer takes, and never a whole channel: quorum queues refuse that."""
        return True


def use_rabbit(app: Celery, url: str, instance: str) -> None:
    """Let a Celery app take wake-ups from RabbitMQ."""
    exchange, patience = kombu.Exchange(instance, type="topic", durable=True), SOCKET_TIMEOUT_SECONDS
    app.conf.update(
        broker_url=url,
        broker_transport=TRANSPORT,
        broker_use_ssl=tls_of(url),
        broker_channel_error_retry=True,  # a message held beyond consumer_timeout costs a connection, no worker
        broker_heartbeat=0,  # a main thread at work sends none; TCP's own signs of life tell that a connection is lost
        broker_transport_options={"read_timeout": patience, "write_timeout": patience, **CONNECT_RETRIES},
        task_queues=[kombu.Queue(queue_name(instance, one), exchange, f"{one}.#", alias=one) for one in QUEUES],
    )


class RabbitWakeUps:
    """Publishes and inspects wake-ups, over a connection for each thread that does so at once."""

    def __init__(self, url: str, instance: str, patience_seconds: float, connections: int) -> None:
        """Opens no connection. A call takes `patience_seconds` at most for each answer of the server."""
        self._url, self._instance, self._patience_seconds = url, instance, patience_seconds
        self._turns, self._idle = threading.Semaphore(connections), list[_Line]()

    def put(self, wake_ups: Sequence[WakeUp], pipe: redis.client.Pipeline) -> None:
        """Publish a batch; return once the server has confirmed it."""
        if wake_ups:
            with self._line() as line:
                line.publish(self._instance, wake_ups)

    def depth(self, stage: Queue) -> int:
        """Count the messages that are ready."""
        queue = queue_name(self._instance, stage)
        return self._ask(lambda line: int(line.channel.queue_declare(queue, passive=True).message_count))

    def park_malformed(self, stage: Queue, park: Park) -> bool:
        """The server lends an item to one worker, and takes it back if that one dies."""

        def park_next(line: _Line) -> bool:
            message = line.channel.basic_get(f"{queue_name(self._instance, stage)}.malformed")
            if message is None:
                return False
            item = bytes(message.body)
            park_item(item, stage, park, lambda event: line.publish(self._instance, [WakeUp(stage, event)]))
            line.channel.basic_ack(message.delivery_tag)
            return True

        return self._ask(park_next)

    def put_back_orphans(self, stage: Queue, worker: str) -> int:
        """The server does so by itself."""
        return 0

    def declare(self) -> None:
        """Declare exchange, queues and bindings. What is there costs a message each."""
        with self._line() as line:
            channel = line.channel
            channel.exchange_declare(self._instance, "topic", durable=True, auto_delete=False)
            for stage in QUEUES:
                queue = queue_name(self._instance, stage)
                for name in (queue, f"{queue}.malformed"):
                    channel.queue_declare(name, durable=True, auto_delete=False, nowait=True)
                channel.queue_bind(queue, self._instance, f"{stage}.#", nowait=True)
            channel.basic_qos(0, 0, False)  # answered once all that came before is done

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().connection.collect()

    def _ask(self, question: Callable[[_Line], Result]) -> Result:
        try:
            with self._line() as line:
                return question(line)
        except BROKER_ERRORS as error:
            raise Unavailable(f"RabbitMQ does not answer: {error!r}") from error

    @contextmanager
    def _line(self) -> Iterator[_Line]:
        """Lend a connection that no other thread uses meanwhile. After an error it is closed: its messages go back."""
        if not self._turns.acquire(timeout=self._patience_seconds):
            raise TimeoutError(f"every connection was busy for {self._patience_seconds:g} s")
        line: _Line | None = None
        try:
            with suppress(IndexError):
                line = self._idle.pop()
            line = line or _Line(self._url, self._patience_seconds)
            yield line
        except BaseException:
            if line is not None:
                line.connection.collect()
            raise
        else:
            self._idle.append(line)
        finally:
            self._turns.release()


class _Line:
    """A connection with a channel on which the server confirms what is published."""

    def __init__(self, url: str, patience_seconds: float) -> None:
        limits = {"read_timeout": patience_seconds, "write_timeout": patience_seconds}
        self.connection = kombu.Connection(
            url,
            transport=TRANSPORT,
            ssl=tls_of(url),
            connect_timeout=min(5.0, patience_seconds),
            transport_options=limits,
        )
        self._patience_seconds = patience_seconds
        self.connection.ensure_connection(max_retries=0)
        self.channel: Any = self.connection.default_channel
        self.channel.confirm_select()
        self.channel.events["basic_ack"].add(self._confirmed)
        self.channel.events["basic_nack"].add(self._refused)
        self._published, self._unconfirmed = 0, set[int]()

    def publish(self, exchange: str, wake_ups: Sequence[WakeUp]) -> None:
        """Publish a batch, and wait until the server has confirmed each."""
        for stage, event_id in wake_ups:
            message = self.channel.prepare_message(_body(event_id), headers=_headers(event_id), **JSON)
            self._published += 1
            self._unconfirmed.add(self._published)
            self.channel.basic_publish(message, exchange, f"{stage}.permit")
        until = time.monotonic() + self._patience_seconds
        while self._unconfirmed:
            self.connection.drain_events(timeout=max(0.001, until - time.monotonic()))

    def _confirmed(self, tag: int, multiple: bool) -> None:
        self._unconfirmed -= {one for one in self._unconfirmed if one <= tag} if multiple else {tag}

    def _refused(self, _tag: int, _multiple: bool) -> None:
        raise ConnectionError("RabbitMQ refused a wake-up")


def _body(event_id: str) -> bytes:
    """Return the body of Celery's message (protocol 2) for one wake-up."""
    return json.dumps([[event_id], {}, {}]).encode()


def _headers(task_id: str) -> dict[str, Any]:
    """Return its headers, by which Celery runs the handling task."""
    return {"lang": "py", "task": HANDLE_TASK, "id": task_id, "ignore_result": True}


def _item_of(message: Any, instance: str) -> bytes:
    """Return a message as the raw item that it would be in Redis, by which it is judged and parked."""
    facts, body = message.delivery_info, message.body
    exchange = EXCHANGE if facts["exchange"] == instance else f"{facts['exchange']} of RabbitMQ"
    item = {
        "body": base64.b64encode(body.encode() if isinstance(body, str) else body).decode(),
        "headers": message.properties.get("application_headers") or {},
        "properties": {
            "delivery_info": {"exchange": exchange, "routing_key": facts["routing_key"]},
            "delivery_tag": str(message.delivery_tag),
            "body_encoding": "base64",
        },
    }
    return json.dumps(item, default=repr).encode()
