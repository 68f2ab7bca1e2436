"""`sluice doctor`: checks what an instance needs. Each function is one check, which measures and names a remedy. It
changes nothing that `sluice up` would not do anyway (folders, the ledger's tables, the model's graph)."""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from sluice.cli.command import Shown, alone
from sluice.cli.output import console, error_console, marked
from sluice.contracts.errors import InvalidSetting, NotInstalled, SluiceError, Unavailable
from sluice.index.folder import list_corpora
from sluice.workers.data_dir import is_shared, open_to_others
from sluice.workers.settings import Settings, load_settings, stray_variables

State = Literal["ok", "warn", "fail"]

FAIL_BELOW_BYTES = 200_000_000
"""Free disk below which a run may not finish: the embedding model's files alone take 90 MB."""
WARN_BELOW_BYTES = 2_000_000_000
"""Free disk that is enough for some hundred thousand chunks with their vectors and three generations."""
CONNECT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Check:
    """Result of a check: its subject, the state, a description, and a remedy. `checks_of` adds the subject."""

    name: str
    state: State
    detail: str
    remedy: str = ""


ok, warn, fail = partial(Check, "", "ok"), partial(Check, "", "warn"), partial(Check, "", "fail")


@alone
def doctor(as_json: bool = False) -> Shown:
    """Check what this instance needs, and say what would help."""
    found = []
    with error_console.status("checking"):
        for check in _all_checks():
            found.append(check)
            if not as_json:
                _print(check)
    is_well = all(check.state != "fail" for check in found)
    return Shown({"ok": is_well, "checks": found}, lambda: None, exit_code=int(not is_well))


def _print(check: Check) -> None:
    colour = {"ok": "green", "warn": "yellow", "fail": "red"}[check.state]
    console.print(f"[{colour}]{check.state:4}[/] [bold]{check.name:15}[/] {marked(check.detail)}")
    if check.remedy:
        console.print(f"     {'':15} → {marked(check.remedy)}")


def _all_checks() -> Iterator[Check]:
    yield Check("python", "ok", ".".join(map(str, sys.version_info[:3])))
    try:
        settings = load_settings()
    except InvalidSetting as error:
        yield Check("settings", "fail", f"{error.field}: {error.problem}", error.remedy)
        return
    yield Check("settings", "ok", f"instance {settings.instance}")
    for told in stray_variables():
        yield Check("settings", "warn", *told.split(": ", 1))
    yield from checks_of(settings)


def checks_of(settings: Settings) -> Iterator[Check]:
    """Yield the result of every check of an instance as it is done. The slow ones (model, browser) come last."""
    checks: tuple[Callable[[Settings], Check], ...] = (
        *(_data_dir, _broker, *([_wake_ups] if settings.wake_up_url else []), _ledger, _index, _blobs, _http_port),
        *(_search, _crawl, _otlp, _graph_server, _cypher),
        *(_user_namespaces, _embedding, _chromium),
    )
    for check in checks:
        try:
            found = check(settings)
        except SluiceError as error:
            found = fail(str(error), _remedy(error))
        except OSError as error:
            found = fail(str(error))
        yield replace(found, name=check.__name__.removeprefix("_"))


def _remedy(error: SluiceError) -> str:
    return getattr(error, "remedy", "") or getattr(error, "lifted_by", "")


def _data_dir(settings: Settings) -> Check:
    folder = settings.data_dir
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=folder) as probe:
            probe.write(b"x")
            probe.flush()
    except OSError as error:
        return fail(str(error), "make it writable, or set SLUICE_DATA_DIR")
    free = shutil.disk_usage(folder).free
    told = f"{folder}, {free / 1e9:.1f} GB free"
    if free < WARN_BELOW_BYTES:
        state: State = "fail" if free < FAIL_BELOW_BYTES else "warn"
        return Check("", state, told, "make room, or set SLUICE_DATA_DIR")
    if is_shared(folder):
        return warn(f"{told}, and it is no folder of Sluice's own", "set SLUICE_DATA_DIR to one")
    if (found := next(open_to_others(folder), None)) is not None:
        return warn(f"{told}; other users may read {found}", "`sluice up` mends it when it starts")
    return ok(f"{told}, readable for this user alone")


def _broker(settings: Settings) -> Check:
    from sluice.workers.broker.embedded import broker_command
    from sluice.workers.broker.transport import BROKER_ERRORS, Transport

    try:
        transport = Transport(settings)
    except InvalidSetting:
        return ok(f"embedded, starts with `sluice up`: {broker_command(settings)[0]}")
    try:
        told = f"answers within {transport.ping():.1f} ms"
    except BROKER_ERRORS as error:
        if not settings.broker_url:
            return ok("embedded, does not run now; starts with `sluice up`")
        return fail(f"{_place(settings.broker_url)}: {error}", "start it, or mend SLUICE_BROKER_URL")
    finally:
        transport.close()
    return ok(f"{_place(settings.broker_location)} {told}")


def _wake_ups(settings: Settings) -> Check:
    from sluice.workers.broker.rabbit import RabbitWakeUps
    from sluice.workers.broker.transport import BROKER_ERRORS

    place, limit = _place(str(settings.wake_up_url)), settings.delivery.event_timeout_seconds
    rabbit = RabbitWakeUps(str(settings.wake_up_url), settings.instance, patience_seconds=5, connections=1)
    try:
        rabbit.declare()
    except BROKER_ERRORS as error:
        return fail(f"{place}: {error}", "start it, or mend SLUICE_WAKE_UP_URL")
    rabbit.close()
    return ok(f"RabbitMQ at {place}; its consumer_timeout has to be above {limit:g} s (delivery.event_timeout_seconds)")


def _index(settings: Settings) -> Check:
    if settings.index.engine == "qdrant":
        from sluice.index.qdrant import LACKS, server

        count = len(server.list_corpora(settings.qdrant))
        return ok(f"Qdrant at {_place(str(settings.qdrant.url))}, {count} corpora; it lacks: {', '.join(LACKS)}")
    return ok(f"{len(list_corpora(settings.data_dir / 'index'))} corpora below {settings.data_dir}")


def _ledger(settings: Settings) -> Check:
    from sqlalchemy import make_url

    from sluice.ledger.ledger import Ledger

    with Ledger(settings.ledger_location) as ledger:
        count = ledger.open_count()
    shown = make_url(settings.ledger_location).render_as_string(hide_password=True)
    return ok(f"{shown}, {count} open events")


def _blobs(settings: Settings) -> Check:
    from sluice.ledger.ledger import Ledger
    from sluice.workers.context import Context
    from sluice.workers.runtime.blob_store import BlobCollector

    with Ledger(settings.ledger_location) as ledger, closing(Context(settings)) as context:
        found = BlobCollector(context.blobs, ledger).measure()
    told = (
        f"{found.referenced + found.young:,} kept ({_megabytes(found.referenced_bytes + found.young_bytes)}, of which "
        f"{_megabytes(found.young_bytes)} go in a day), {found.collectable:,} collectable "
        f"({_megabytes(found.collectable_bytes)}): the reconciler removes them"
    )
    return ok(told)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _http_port(settings: Settings) -> Check:
    address = f"{settings.http_host}:{settings.http_port}"
    family = socket.AF_INET6 if ":" in settings.http_host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.http_host, settings.http_port))
        except OSError as error:
            if _is_sluice(settings):
                return ok(f"{address}: an instance runs")
            return fail(f"{address}: {error.strerror}", "stop what uses it, or set SLUICE_HTTP_PORT")
    return ok(f"{address} is free")


def _is_sluice(settings: Settings) -> bool:
    import httpx

    try:
        answer = httpx.get(
            f"http://{settings.http_host}:{settings.http_port}/healthz", timeout=CONNECT_SECONDS, trust_env=False
        )
        return "checks" in answer.json()
    except (httpx.HTTPError, ValueError, TypeError):
        return False


def _search(settings: Settings) -> Check:
    from sluice.ingest.http.fetch import Fetcher
    from sluice.ingest.search.providers import build_providers
    from sluice.workers.runtime.observers import utc_now

    search = settings.search
    if not search.enabled:
        return warn("off: the gate cannot search the web", "search.enabled = true and search.providers")
    if not search.providers:
        return fail("on, without a provider", "name some in search.providers")
    nowhere = "http://127.0.0.1:1"  # building opens no connection, so no proxy is needed
    fetcher = Fetcher(nowhere, user_agent=settings.crawl.agent)
    build_providers(search, fetcher=fetcher, proxy_url=nowhere, clock=utc_now)
    return ok(", then ".join(search.providers))


def _crawl(settings: Settings) -> Check:
    crawl, egress = settings.crawl, settings.egress
    if not crawl.enabled:
        return warn("off: the gate cannot fetch pages", "crawl.enabled = true and crawl.contact")
    if egress.policy == "deny":
        return fail("on, while egress.policy denies all", 'egress.policy = "open" or "listed"')
    if egress.policy == "listed" and not egress.allow_domains and not egress.allow:
        return fail("on, while nothing is listed", "name domains in egress.allow_domains")
    if not crawl.contact:
        remedy = "set crawl.contact to a web or mail address: sites block crawlers that name no owner"
        return warn(f"as {crawl.agent}, without a contact", remedy)
    return ok(f"as {crawl.agent}")


def _otlp(settings: Settings) -> Check:
    endpoint = settings.telemetry.otlp_endpoint
    if not endpoint:
        return ok("not set: spans stay in the local store")
    place = urlsplit(endpoint)
    port = place.port or (443 if place.scheme == "https" else 80)
    try:
        socket.create_connection((place.hostname or "", port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        remedy = "start the collector; until then spans are kept in the local store only"
        return fail(f"{_place(endpoint)}: {error}", remedy)
    return ok(f"{_place(endpoint)} takes connections")


def _graph_server(settings: Settings) -> Check:
    from sluice.workers.wiring.graphs import build_graph_server

    server = build_graph_server(settings.graph, settings.egress)
    if server is None:
        return ok("none: the graph is in files of its own")
    try:
        server.ping()
    finally:
        server.close()
    return ok(f"{server.place} answers")


def _cypher(settings: Settings) -> Check:
    """Check that a Cypher query can run in a locked process here, and by which layers."""
    if not (settings.graph.enabled and settings.graph.cypher):
        return ok("off")
    from sluice.graph.cypher.engine_file import FILE
    from sluice.graph.cypher.run import find_layers

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / FILE).touch()  # the only file that a query may read
        try:
            found = find_layers(Path(folder))
        except (Unavailable, NotInstalled) as error:
            remedy = "graph.cypher = false, where nothing is asked in Cypher; all else goes on"
            return warn(f"questions in Cypher are refused: {error}", remedy)
    return ok(f"a question runs behind {', '.join(found['layers'])}")


def _user_namespaces(settings: Settings) -> Check:
    forbidding = {
        "kernel/unprivileged_userns_clone": "0",
        "kernel/apparmor_restrict_unprivileged_userns": "1",
        "user/max_user_namespaces": "0",
    }
    found = [name for name, value in forbidding.items() if _kernel_setting(name) == value]
    if found:
        names = ", ".join(name.replace("/", ".") for name in found)
        return warn(f"restricted by {names}", "allow them: the browser's sandbox uses them")
    return ok("allowed")


def _kernel_setting(name: str) -> str | None:
    try:
        return (Path("/proc/sys") / name).read_text().strip()
    except OSError:
        return None


def _embedding(settings: Settings) -> Check:
    from sluice.ingest.embed.minilm import ensure_model

    if settings.embed.provider == "openai":
        if settings.embed.openai_api_key is None and settings.embed.openai_base_url is None:
            return fail("openai, without a key", "set SLUICE_EMBED__OPENAI_API_KEY")
        return ok(f"openai, {settings.embed.openai_model}")
    chosen = [settings.embed, *(settings.embed.changed_by(one) for one in settings.embed.corpora.values())]
    precisions = dict.fromkeys(one.precision for one in chosen if one.provider == "local")
    folders = [str(ensure_model(settings.model_dir, precision)) for precision in precisions]
    return ok(", ".join(folders))


def _chromium(settings: Settings) -> Check:
    from sluice.workers.wiring.crawler import NO_BROWSER, private_folders

    if settings.crawl.render == "never":
        return ok("not needed: crawl.render is never")
    state: State = "fail" if settings.crawl.enabled else "warn"
    if NO_BROWSER is not None:
        return Check("", state, NO_BROWSER.problem, NO_BROWSER.remedy)
    from sluice.ingest.browser.browser import Browser

    browser = Browser(settings.crawl, hidden=private_folders(settings))
    try:
        told = f"{browser.assert_sandboxed()}, sandboxed"
        if browser.running is not None and (missing := browser.running.isolation.missing):
            remedy = "the system, the container or the unit forbids it; crawl.browser_network tells what is done then"
            return warn(f"{told}; missing: {'; '.join(missing)}", remedy)
        return ok(told)
    except SluiceError as error:
        return Check("", state, str(error), _remedy(error))
    finally:
        browser.close()


def _place(url: str) -> str:
    """Return host and port of a URL, without the user and password that may stand before them."""
    return urlsplit(url).netloc.rpartition("@")[2]
