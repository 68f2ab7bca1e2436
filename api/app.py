"""The HTTP application: its routes and middleware, and its start."""

from __future__ import annotations

import ast
import inspect
import sys
import tomllib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from importlib.metadata import version
from importlib.resources import files
from itertools import chain, pairwise
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.concurrency import run_in_threadpool
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from sluice.api import (
    console,
    corpora,
    crawling,
    dead_letters,
    documents,
    graph,
    keys,
    memory,
    operations,
    problems,
    runs,
    uploads,
    webhooks,
)
from sluice.api.access import MCP, WritingDoor
from sluice.api.connections import BoundedConnection, Server
from sluice.api.manual import manual
from sluice.api.mcp import Door
from sluice.api.requests import REQUEST_ID, RUN, Observed
from sluice.contracts.api import EventsPart, Problem
from sluice.contracts.base import Value
from sluice.contracts.event import Body, Event
from sluice.otel import metrics
from sluice.otel.start import shutdown as stop_telemetry
from sluice.otel.start import start as start_telemetry
from sluice.workers.processes.kernel import die_with_parent, give_signs_of_life
from sluice.workers.service.callers import LocalKey, is_loopback, require_key_beyond_loopback
from sluice.workers.service.instance import Instance
from sluice.workers.settings import Settings
from sluice.workers.supervisor.checks import require_free_port

PARTS = (runs, corpora, documents, uploads, crawling, memory, graph, dead_letters, webhooks, operations, keys)
"""Modules with routes, in the order of the description."""

SERVED_BY: dict[str, Any] = {
    "http": BoundedConnection,
    "ws": "none",
    "log_config": None,
    "access_log": False,
    "log_level": "warning",
    "timeout_graceful_shutdown": 10,
}
"""Options of the HTTP server."""
NOT_STARTED = 3
"""Exit code of a server that could not start, as uvicorn's own."""
CORS: dict[str, Any] = {
    "allow_methods": ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"),
    "allow_headers": ("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", REQUEST_ID, "traceparent"),
    "expose_headers": (REQUEST_ID, RUN, "Retry-After", "Location", "RateLimit", "RateLimit-Policy"),
    "max_age": 600,
}
"""For pages of other origins that the settings name. They send a key; the console's cookie stays out."""
VERBS = {"recent": "list", "some": "list", "every": "list", "entries": "list", "one": "get"}
"""Verbs of operation ids, by the names that routes have here."""
DESCRIPTION = "Search-gated retrieval for AI agents: ask, and get cited context with the reason for every step."


def make_api(settings: Settings) -> FastAPI:
    """Build the application for one instance. Opens nothing before it is started."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        start_telemetry("sluice-api", settings.telemetry, data_dir=settings.data_dir, instance=settings.instance)
        instance = app.state.instance = Instance(settings)
        await run_in_threadpool(instance.warm)
        LocalKey(settings.data_dir).renew(settings.http_host, settings.http_port)
        metrics.serve_metrics(settings.telemetry.metrics_address)
        yield
        await door.close()
        await instance.close()
        stop_telemetry()

    door = Door(settings)
    app = FastAPI(
        title="Sluice",
        version=version("sluice"),
        description=DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,  # FastAPI's own page loads its scripts from elsewhere
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        generate_unique_id_function=operation_id,
        servers=[{"url": "/", "description": "The address that served this description"}],
    )
    app.state.keys_optional = is_loopback(settings.http_host) and not settings.require_api_key
    app.openapi = partial(described, app)  # type: ignore[method-assign]
    problems.install(app)
    if settings.cors_origins:
        app.add_middleware(CORSMiddleware, allow_origins=settings.cors_origins, **CORS)
    app.add_middleware(Observed)
    routers = [manual, *(router for module in PARTS for router in module.ROUTERS), *console.ROUTERS]
    for router in routers:
        app.include_router(router)
    app.state.routes = [
        *(one for one in app.routes if isinstance(one, Route)),
        *chain(*(one.routes for one in routers)),
    ]
    if settings.mcp.enabled:
        app.router.routes.append(Route(MCP, endpoint=door))
    app.router.middleware_stack = WritingDoor(
        app.router.middleware_stack, settings.max_request_bytes, settings.max_upload_bytes, settings.cors_origins
    )
    return app


def operation_id(route: APIRoute) -> str:
    """Return a name that makes a good method of a generated client: `runs_list`, `dead_letters_replay`."""
    resource = str(route.tags[0] if route.tags else "instance").replace(" ", "_")
    return f"{resource}_{VERBS.get(route.name, route.name)}"


def described(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description, with the shapes that no route names as a model: of errors, and of events."""
    if app.openapi_schema is None:
        made = FastAPI.openapi(app)
        place = "#/components/schemas/{model}"
        bodies = Body.registry.values()
        unnamed: list[type[Value]] = [Problem, EventsPart, *bodies]
        _, shapes = models_json_schema([(kind, "serialization") for kind in unnamed], ref_template=place)
        known = made["components"]["schemas"] = {**shapes["$defs"], **made["components"]["schemas"]}
        known |= of_events(known, bodies)
        del known[Body.__name__]  # each envelope names its own
        describe_fields(known)
        table = descriptions()
        made["tags"] = [{"name": name, "description": about} for name, about in table["tags"].items()]
        for operation in (one for path in made["paths"].values() for one in path.values()):
            for parameter in operation.get("parameters", ()):
                about = table["parameters"].get(parameter["name"]) or table["every"].get(parameter["name"])
                parameter.setdefault("description", about or "")
            if operation.get("security") and app.state.keys_optional:
                operation["security"] = [{}, *operation["security"]]
    return app.openapi_schema or {}


def of_events(shapes: Mapping[str, Any], bodies: Iterable[type[Body]]) -> dict[str, Any]:
    """Return the shape of each kind of event, its envelope around its body; and `Event`, which is one of them."""
    envelope, found = shapes[Event.__name__], dict[str, Any]()
    for body in bodies:
        name = f"{body.__name__}Event" + (f"V{body.version}" if body.version > 1 else "")
        own = {
            "kind": {"type": "string", "const": body.kind},
            "version": {"type": "integer", "const": body.version},
            "body": {"$ref": f"#/components/schemas/{body.__name__}"},
        }
        about = inspect.cleandoc(body.__doc__ or "").split("\n\n")[0]
        found[name] = {**envelope, "title": name, "description": about, "properties": {**envelope["properties"], **own}}
    told = [{"$ref": f"#/components/schemas/{name}"} for name in found]
    about = "One event of a run: an envelope around a body. Kinds that this description does not know may come later."
    return {**found, Event.__name__: {"title": Event.__name__, "description": about, "oneOf": told}}


def describe_fields(shapes: dict[str, Any]) -> None:
    """Give each field that has none the docstring below it, which pydantic would read in every process at its start;
    else what `fields.toml` says of it."""
    kinds = [Value]
    for kind in kinds:
        kinds += kind.__subclasses__()
        shape = shapes.get(kind.__name__, {})
        for one in kind.__mro__ if shape else ():
            told = docstrings_of(one) if issubclass(one, Value) else {}
            describe(shape, {name: " ".join(docstring.split()) for name, docstring in told.items()})
    table = descriptions()
    for name, shape in shapes.items():
        describe(shape, table.get(name, {}))
        describe(shape, table["every"])


@cache
def descriptions() -> dict[str, dict[str, str]]:
    """Return the tables of `fields.toml`."""
    return tomllib.loads(files(__package__).joinpath("fields.toml").read_text("utf-8"))


def describe(shape: Mapping[str, Any], told: Mapping[str, str]) -> None:
    """Give each field of a shape that has no description the one that is told of it."""
    for name, field in shape.get("properties", {}).items():
        if name in told:
            field.setdefault("description", told[name])


def docstrings_of(kind: type) -> dict[str, str]:
    """Return the docstrings of a class's own fields, by their names; of a class that code has made there are none."""
    written = classes_in(kind.__module__).get(kind.__qualname__)
    return {
        field.target.id: told.value.value
        for field, told in pairwise(written.body if written else ())
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(told, ast.Expr) and isinstance(told.value, ast.Constant) and isinstance(told.value.value, str)
    }


@cache
def classes_in(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes that a module's text defines, by their names."""
    text = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in text.body if isinstance(node, ast.ClassDef)}


def serve(settings: Settings) -> None:
    """Serve until a signal. Raises `InvalidSetting` without a key beyond loopback, or if the port is taken."""
    die_with_parent()
    give_signs_of_life()
    require_free_port(settings.http_host, settings.http_port)
    require_key_beyond_loopback(settings)
    uploads.spool_to(settings.data_dir / uploads.FOLDER)
    api = make_api(settings)
    server = Server(api, uvicorn.Config(api, host=settings.http_host, port=settings.http_port, **SERVED_BY))
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(NOT_STARTED)
