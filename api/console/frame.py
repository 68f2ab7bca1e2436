"""The frame of every page: who looks at it, how it is rendered and protected, and what an error becomes.

A page is protected in this order: autoescape; a content security policy with a nonce of its own for each response,
under which no script, style or request of another origin runs; htmx's guard, which carries out no attribute without
that nonce; a token of the session in each form, beside the check of the request's origin (`WritingDoor`).
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from math import ceil
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import structlog
from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, FunctionLoader, StrictUndefined
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Message

from sluice.api.access import CONSOLE, counted, instance_of, require_own_host
from sluice.api.console import words
from sluice.api.console.assets import address_of
from sluice.api.problems import status_of
from sluice.contracts.errors import Forbidden, InvalidInput, Overloaded, SluiceError, Unavailable, plain_sentence
from sluice.workers.service.callers import Caller, Visitor, is_loopback
from sluice.workers.service.instance import BROKER_ERRORS, Instance

log = structlog.get_logger(__name__)

COOKIE, SAID = "__Host-sluice", "__Host-sluice-said"
"""The session's id, and what the page that follows an action has to say."""
COOKIES: dict[str, Any] = {"secure": True, "httponly": True, "samesite": "strict", "path": "/"}
POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types htmx"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Other origins learn no address of ours. Under `no-referrer` a browser would send forms with `Origin: null`, which the
check of the origin has to refuse."""
FORM = "application/x-www-form-urlencoded"
MOST_KEPT, MOST_KEPT_LETTERS = 64, 300_000
"""Pages that are kept to be shown, greyed, while the ledger does not answer; and the longest of them."""
_HX = re.compile(r'\shx-[a-z:-]+="[^"]*"')

NAVIGATION = (
    (CONSOLE, "Overview"),
    (f"{CONSOLE}/runs", "Runs"),
    (f"{CONSOLE}/dead", "Dead letters"),
    (f"{CONSOLE}/replays", "Replays"),
    (f"{CONSOLE}/crawl", "Crawl"),
    (f"{CONSOLE}/corpora", "Corpora"),
    (f"{CONSOLE}/gate", "Gate"),
    (f"{CONSOLE}/memory", "Memory"),
    (f"{CONSOLE}/graph", "Graph"),
    (f"{CONSOLE}/quarantine", "Quarantine"),
    (f"{CONSOLE}/actions", "Actions"),
    (f"{CONSOLE}/keys", "Keys"),
    (f"{CONSOLE}/config", "Config"),
    (f"{CONSOLE}/figures", "Figures"),
)
"""The pages that every page leads to, in order."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A form that was sent with something wrong in it: it is shown again, with the message by its field."""

    url: str
    field: str
    message: str
    values: QueryParams


@dataclass(slots=True)
class Visit:
    """One request for a page, by somebody who is known. Handlers take it as `Visiting`, `Operating`, `OperatingAll`."""

    request: Request
    instance: Instance
    visitor: Visitor
    form: QueryParams
    """What a POST sent; without its token."""
    kept: bool = field(default=True, init=False)
    """Whether the page may be kept, to be shown while the ledger is away."""

    @property
    def caller(self) -> Caller:
        """Who it is, as the services want it."""
        return self.visitor.caller

    @property
    def is_operator(self) -> bool:
        """Whether it may operate: on what its key covers."""
        return self.caller.role == "operator"

    @property
    def is_whole_operator(self) -> bool:
        """Whether it may operate the instance."""
        return self.is_operator and self.caller.corpora is None

    @property
    def role(self) -> str:
        """What the key allows, in words."""
        corpora = self.caller.corpora
        return f"{self.caller.role} of {'all corpora' if corpora is None else ', '.join(sorted(corpora))}"

    @property
    def here(self) -> str:
        """The address of the page, with its filters."""
        return address(self.request.scope["path"], self.request.scope["query_string"].decode("latin-1"))

    def here_with(self, **changed: object) -> str:
        """Return the page's address with some parameters changed; None removes one."""
        kept = [pair for pair in self.request.query_params.multi_items() if pair[0] not in changed]
        added = [(name, value) for name, value in changed.items() if value is not None]
        return address(self.request.scope["path"], urlencode([*kept, *added]))

    def note(self, name: str = "note", why: str | None = None) -> str:
        """Return a field of the form that says why, in at most 1,000 letters; it may be empty unless `why` tells what
        it is for. Raises `InvalidInput`."""
        note, problem = self.form.get(name, "").strip(), "has more than 1,000 letters"
        if len(note) > 1_000 or (why is not None and not note):
            raise InvalidInput(name, problem if why is None else f"say why, in 1 to 1,000 letters{why}")
        return note

    def names(self) -> dict[str, str]:
        """Return the name of each key by its id, to an operator of all corpora; to others nothing."""
        return {one.id: one.name for one in self.instance.keys.list()} if self.is_whole_operator else {}

    def looked(self, action: str, subject: str) -> None:
        """Record that a payload, a held text or a memory is shown: call it before it is read. Raises `Unavailable`."""
        self.kept = False
        self.record(action, subject)

    def record(self, action: str, *subjects: str, note: str = "") -> None:
        """Record an action that its service does not record. Raises `Unavailable`: then it may not be done."""
        self.instance.console.record(self.visitor, action, subjects, note)

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """Render a page. `values` are what its template names."""
        said = self.request.cookies.get(SAID)
        text = render(self.request, template, visit=self, said=said and unquote(said), **values)
        if self.request.method == "GET" and status == 200 and self.kept:
            _keep(self, text)
        response = HTMLResponse(text, status)
        if said:
            response.delete_cookie(SAID, **COOKIES)
        return response

    def done(self, said: str, to: str | None = None) -> Response:
        """End an action: lead to a page, by default the one that the form stands on, which says what was done."""
        back = own_address(self.form.get("back"))
        target = own_address(to) if to else back
        response: Response = RedirectResponse(target, 303)
        if target != back and "hx-request" in self.request.headers:
            response = Response(headers={"HX-Redirect": target})
        response.set_cookie(SAID, quote(said[:1_000]), max_age=60, **COOKIES)
        return response


def pages() -> APIRouter:
    """Return a router for pages below `/console`: each is visited by somebody who is known, its errors are pages."""
    return APIRouter(
        prefix=CONSOLE, include_in_schema=False, route_class=ConsoleRoute, dependencies=[Depends(visit_of)]
    )


class ConsoleRoute(APIRoute):
    """A route whose errors are pages, and whose responses are protected."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of this route's requests."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            request.scope.setdefault("console.nonce", secrets.token_urlsafe(16))
            try:
                response = await handle(request)
            except Exception as error:  # noqa: BLE001 - a page for each; what is no error of the tree is logged
                response = await _from_error(request, error)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            response.headers["Content-Security-Policy"] = POLICY.format(nonce=request.scope["console.nonce"])
            return response

        return handled


async def visit_of(request: Request) -> Visit:
    """Find out who sends a request, and check the token of a form. Raises `HTTPException` (401) if nobody is signed in,
    `Forbidden` for a form of another session, `RateLimited`."""
    if "console.visit" in request.scope:
        known: Visit = request.scope["console.visit"]
        return known
    instance = instance_of(request)
    visitor = await run_in_threadpool(visitor_of, request)
    if visitor is None:
        raise HTTPException(401)
    request.scope["caller"] = visitor.caller
    await counted(request, visitor.caller)
    visit = request.scope["console.visit"] = Visit(request, instance, visitor, QueryParams())
    if request.method == "POST":
        visit.form = await form_of(request)
        if not hmac.compare_digest(visit.form.get("token", ""), instance.console.token(visitor)):
            raise Forbidden("this form is of another session: open its page again")
    return visit


def visitor_of(request: Request) -> Visitor | None:
    """Return who is signed in, or who sits at this machine while that needs no key; None for anybody else."""
    require_own_host(request)
    instance = instance_of(request)
    if (session_id := request.cookies.get(COOKIE)) and (visitor := instance.console.find(session_id)):
        return visitor
    settings = instance.settings
    return instance.console.keyless(settings.require_api_key) if is_loopback(settings.http_host) else None


async def operating(visit: Annotated[Visit, Depends(visit_of)]) -> Visit:
    """Require an operator."""
    visit.caller.may_operate()
    return visit


async def operating_all(visit: Annotated[Visit, Depends(visit_of)]) -> Visit:
    """Require an operator of all corpora."""
    visit.caller.may_operate_instance()
    return visit


Visiting = Annotated[Visit, Depends(visit_of)]
Operating = Annotated[Visit, Depends(operating)]
OperatingAll = Annotated[Visit, Depends(operating_all)]


async def form_of(request: Request) -> QueryParams:
    """Return the fields of a form. Raises `HTTPException` (415) for a body of another type."""
    if not request.headers.get("content-type", "").startswith(FORM):
        raise HTTPException(415, f"send it as {FORM}")
    return QueryParams((await request.body()).decode("utf-8", "replace"))


def own_address(given: str | None) -> str:
    """Return an address of the console as a path; its first page for what is none."""
    try:
        parts = urlsplit(given or "")
    except ValueError:
        return CONSOLE
    is_own = not parts.scheme and not parts.netloc and (parts.path == CONSOLE or parts.path.startswith(f"{CONSOLE}/"))
    return address(parts.path, parts.query) if is_own and parts.path.isprintable() else CONSOLE


def address(path: str, query: str = "") -> str:
    """Return a path and a query as one address."""
    return quote(path, safe=_IN_PATH) + (f"?{quote(query, safe=_IN_PATH + '?')}" if query else "")


_IN_PATH = "/:@!$&'()*+,;=~%"


@cache
def environment() -> Environment:
    """Return what renders the templates: everything is escaped, and a name that is not given is an error."""
    made = Environment(
        loader=FunctionLoader(lambda name: files(__package__).joinpath("templates", name).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"asset": address_of, "navigation": NAVIGATION, "console": CONSOLE}
    made.filters |= words.FILTERS
    return made


def render(request: Request | None, template: str, **values: Any) -> str:
    """Return a rendered template: a page of a request, or a fragment of a stream, which has none."""
    visit = values.get("visit")
    about = {
        "visit": None,
        "said": None,
        "now": datetime.now(UTC),
        "nonce": request.scope["console.nonce"] if request else "",
        "token": visit.instance.console.token(visit.visitor) if visit else "",
        "refused": request.scope.get("console.refused") if request else None,
    }
    return environment().get_template(template).render(about | values)


async def _from_error(request: Request, error: Exception) -> Response:
    """Return the page for an error."""
    visit: Visit | None = request.scope.get("console.visit")
    match error:
        case HTTPException(status_code=401):
            return sign_in(request)
        case RequestValidationError():
            entry = error.errors()[0]
            error = InvalidInput(str(entry["loc"][-1]), plain_sentence(entry))
    if visit and request.method == "POST" and isinstance(error, InvalidInput):
        return await _again(visit, error)
    is_away = isinstance(error, Unavailable) and not isinstance(error, Overloaded)
    if visit and request.method == "GET" and is_away and (kept := _KEPT.get(_name_of(visit))):
        return visit.show("away.html", 503, error=error, kept_at=kept[0], kept=kept[1])
    status, detail = 500, "an unexpected error; the log has its trace under this request's id"
    if isinstance(error, SluiceError):
        status, detail = status_of(error), str(error)
    elif isinstance(error, HTTPException):
        status, detail = error.status_code, str(error.detail)
    elif isinstance(error, BROKER_ERRORS):
        status, detail = 503, "the broker or the disk does not answer"
    else:
        log.error("request_failed", error=repr(error), exc_info=error)
    text = render(request, "error.html", visit=visit, status=status, detail=detail)
    later = {"Retry-After": str(ceil(error.retry_after_seconds))} if isinstance(error, Unavailable) else None
    return HTMLResponse(text, status, later)


def sign_in(request: Request, problem: str = "", status: int = 401, to: str | None = None) -> Response:
    """Return the page on which one signs in. A link on another site's page brings no cookie along (`SameSite=Strict`):
    then the page loads itself once more, from here."""
    came_from_elsewhere = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
    path, query = request.scope["path"], request.scope["query_string"].decode("latin-1")
    here = to or (address(path, query) if request.method == "GET" else CONSOLE)
    text = render(request, "sign_in.html", to=own_address(here), problem=problem, again=came_from_elsewhere)
    return HTMLResponse(text, status)


async def _again(visit: Visit, error: InvalidInput) -> Response:
    """Return the page that a form stands on, with what is wrong in the form by its field."""
    request, parts = visit.request, urlsplit(own_address(visit.form.get("back")))
    told = error.problem + (f" ({error.remedy})" if error.remedy else "")
    changed = {
        "method": "GET",
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "console.refused": Refused(request.url.path, error.field, told, visit.form),
        "console.visit": Visit(request, visit.instance, visit.visitor, QueryParams()),
    }
    kept = {name: request.scope[name] for name in _OF_REQUEST if name in request.scope}
    scope: dict[str, Any] = {**kept, **changed}
    scope["console.visit"].request = Request(scope)
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    for route in request.app.state.routes:
        matched, child = route.matches(scope)
        if matched is Match.FULL:
            scope.update(child)
            await route.handle(scope, receive, send)
            break
    body = b"".join(message.get("body", b"") for message in messages)
    return HTMLResponse(body, 422)


_OF_REQUEST = (
    *("type", "asgi", "http_version", "server", "client", "scheme", "root_path", "headers", "state", "app", "router"),
    *("caller", "rate", "console.nonce", "fastapi_middleware_astack"),
)
"""What another page of the same request takes over from its scope."""

_KEPT: OrderedDict[tuple[str, str], tuple[datetime, str]] = OrderedDict()
"""The latest pages, as of when, each by its visitor and its address."""


def _name_of(visit: Visit) -> tuple[str, str]:
    return f"{visit.instance.settings.data_dir}:{visit.visitor.session}", visit.here


def _keep(visit: Visit, text: str) -> None:
    shown = text.partition("<main")[2].partition(">")[2].rpartition("</main>")[0]
    if 0 < len(shown) <= MOST_KEPT_LETTERS:
        _KEPT.pop(_name_of(visit), None)
        _KEPT[_name_of(visit)] = (datetime.now(UTC), _HX.sub("", shown))
        while len(_KEPT) > MOST_KEPT:
            _KEPT.popitem(last=False)
