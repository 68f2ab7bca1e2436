"""Fixtures of the way out: sites on loopback, the egress proxy that lets a test reach its own, a fetcher through it."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from sluice.ingest.egress.crawl_account import EgressLimits
from sluice.ingest.egress.proxy import EgressProxy, Refusal
from sluice.ingest.http.fetch import Fetcher
from sluice.ingest.settings import EgressSettings
from tests.support.site import Site

USER_AGENT = "SluiceBot/0.1 (+https://sluice.invalid/bot)"


@pytest.fixture
def site() -> Iterator[Site]:
    """One site on loopback."""
    served = Site()
    yield served
    served.close()


@pytest.fixture
def make_site() -> Iterator[Callable[[], Site]]:
    """As many sites as a test needs."""
    made: list[Site] = []

    def make() -> Site:
        made.append(Site())
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def refusals() -> list[Refusal]:
    """What the proxy of this test refused."""
    return []


@pytest.fixture
def proxy(site: Site, refusals: list[Refusal]) -> Iterator[EgressProxy]:
    """The egress proxy, with the test's site as its one exception."""
    limits = EgressLimits(idle_timeout_seconds=5.0, connect_timeout_seconds=2.0)
    with EgressProxy(EgressSettings(allow=(site.address,)), on_refusal=refusals.append, limits=limits) as running:
        yield running


@pytest.fixture(scope="session")
def authorities() -> ssl.SSLContext:
    """The public certificate authorities, read once: that takes longer than most tests."""
    return httpx.create_ssl_context()


@pytest.fixture
def fetcher(proxy: EgressProxy, authorities: ssl.SSLContext) -> Fetcher:
    """A fetcher through the proxy."""
    return Fetcher(proxy.url, user_agent=USER_AGENT, tls=authorities)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key, signed by itself."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    chain, key = folder / "chain.pem", folder / "key.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([*made, "-keyout", key, "-out", chain, "-days", "2", *subject], check=True, capture_output=True)
    return chain, key


@pytest.fixture
def tls_site(certificate: tuple[Path, Path]) -> Iterator[Site]:
    """A site on loopback that speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    served = Site(context)
    yield served
    served.close()


@pytest.fixture
def trust(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    """What a client must trust to speak to `tls_site`."""
    return ssl.create_default_context(cafile=str(certificate[0]))
