"""The browser's own small world, on a real Chromium: a network that leads to the proxy alone, and processes that end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import sluice
from sluice.contracts.errors import PolicyRefused
from sluice.ingest.browser import namespace, running_browser
from sluice.ingest.browser.browser import Browser
from sluice.ingest.browser.launch import Launcher, find_chromium, write_launcher
from sluice.ingest.browser.page import RenderLimits
from sluice.ingest.browser.processes import descendants, family, require_sandbox
from sluice.ingest.settings import CrawlSettings
from tests.support.browser_world import PAGES, World, chromium_under_test, runs, world_with_a_browser

IS_ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not IS_ROOT, reason="looks into another network, or becomes another user: needs root")

DIAL = """
import socket, sys
for host, port in [(a.rpartition(":")[0], int(a.rpartition(":")[2])) for a in sys.argv[1:]]:
    try:
        with socket.create_connection((host, port), timeout=3) as made:
            made.settimeout(3)
            print("reached", "closed" if made.recv(1) == b"" else "open")
    except ConnectionResetError:
        print("reached", "closed")
    except TimeoutError:
        print("reached", "silent")
    except OSError as error:
        print("failed", error.strerror)
"""

PAGES |= {
    "/store": """<p id=o></p><script>(async () => {
      document.cookie = "seen=1; max-age=3600"; localStorage.seen = "1"; sessionStorage.seen = "1";
      await (await caches.open("seen")).put("/seen", new Response("1"));
      await new Promise(done => { const asked = indexedDB.open("seen"); asked.onsuccess = done;
        asked.onupgradeneeded = () => asked.result.createObjectStore("seen"); });
      new BroadcastChannel("seen").postMessage("1"); o.textContent = "stored " + document.cookie + localStorage.seen;
    })().catch(e => o.textContent = "failed " + e)</script><script src=/cached></script>""",
    "/recall": """<p id=o></p><script>(async () => {
      const databases = await indexedDB.databases();
      o.textContent = "recalled " + JSON.stringify([document.cookie, localStorage.seen || "", sessionStorage.seen || "",
        await caches.keys(), databases]);
    })().catch(e => o.textContent = "failed " + e)</script><script src=/cached></script>""",
    "/listening": """<p id=o>heard nothing</p><script>new BroadcastChannel("seen").onmessage = () =>
      { o.textContent = "heard" }; fetch("/facts")</script>""",
}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = world_with_a_browser()
    assert made.browser.running is not None
    if not made.browser.running.isolation.network:
        made.close()
        pytest.skip(f"no network namespace here: {made.browser.running.isolation.missing}")
    yield made
    made.close()


def _dial_from_within(world: World, *addresses: str) -> list[str]:
    pid = chromium_under_test(world.browser)
    command = ["nsenter", "--net", "--target", str(pid), sys.executable, "-c", DIAL, *addresses]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


@as_root
def test_every_process_of_the_browser_lives_in_a_network_and_a_process_namespace_of_its_own(world: World) -> None:
    world.render("/plain")
    members = [pid for pid in descendants(chromium_under_test(world.browser)) if runs(pid)]
    for kind in ("net", "pid"):
        ours = os.readlink(f"/proc/self/ns/{kind}")
        theirs = set()
        for pid in members:
            with suppress(FileNotFoundError):  # it ended meanwhile
                theirs.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
        assert theirs
        assert ours not in theirs


@as_root
def test_from_within_nothing_can_be_reached_but_the_way_out_and_that_only_for_a_page(world: World) -> None:
    site = world.origin.removeprefix("http://")
    proxy = world.proxy_url.rpartition("@")[2]
    assert _dial_from_within(world, site, proxy, "192.0.2.1:80", "169.254.169.254:80") == [
        "failed Connection refused",
        "failed Connection refused",
        "failed Network is unreachable",
        "failed Network is unreachable",
    ]
    assert _dial_from_within(world, f"127.0.0.99:{namespace.LISTENER_PORT}") == ["reached closed"]


def test_a_worker_that_must_isolate_refuses_a_browser_without_a_network_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without_network(folder: Path, binary: Path, *, network: bool, hidden: Sequence[Path]) -> Launcher:
        assert network
        return write_launcher(folder, binary, network=False)

    monkeypatch.setattr(running_browser, "write_launcher", without_network)
    browser = Browser(CrawlSettings(browser_network="isolated"))
    try:
        with pytest.raises(PolicyRefused) as refusal:
            browser.assert_sandboxed()
    finally:
        browser.close()
    assert refusal.value.rule == "network"
    assert "crawl.browser_network" in refusal.value.lifted_by


@pytest.mark.parametrize("network", ["isolated", "shared"])
def test_a_worker_that_is_killed_leaves_no_process_of_its_browser(network: str) -> None:
    script = f"""
import time
from sluice.ingest.browser.browser import Browser
from sluice.ingest.browser.processes import descendants
from sluice.ingest.settings import CrawlSettings
browser = Browser(CrawlSettings(browser_network={network!r}))
browser.assert_sandboxed()
print(*descendants(browser.running.launcher_pid), flush=True)
time.sleep(600)
"""
    worker = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    members = [int(pid) for pid in worker.stdout.readline().split()]
    assert len(members) > 5
    worker.kill()
    worker.communicate()
    until = time.monotonic() + 20
    while time.monotonic() < until and any(map(runs, members)):
        time.sleep(0.1)
    assert not [pid for pid in members if runs(pid)]


def test_a_renderer_that_shares_the_namespace_of_its_browser_is_refused_however_deep_both_are() -> None:
    """Read against our own depth, everything in a container's process namespace would pass for confined."""
    sleeper = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()', '--type=renderer'])"
    own = ["unshare", "--pid", "--fork"] if IS_ROOT else ["unshare", "--user", "--pid", "--fork"]
    command = [*own, sys.executable, "-c", sleeper, "--remote-debugging-pipe"]
    browser = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert browser.stdout is not None
    try:
        assert browser.stdout.readline() == "1\n"
        with pytest.raises(PolicyRefused, match="shares the browser's process namespace"):
            require_sandbox(browser.pid, patience_seconds=0)
    finally:
        browser.communicate("done\n")


@as_root
def test_the_browser_does_not_see_the_folders_of_its_worker(tmp_path: Path) -> None:
    """Through /proc/PID/root (proc(5)): the files as that process finds them."""
    ours, other = tmp_path / "ours" / "data", tmp_path / "other"
    for folder in (ours, other):
        folder.mkdir(parents=True)
        (folder / "key").write_text("secret")
    browser = Browser(CrawlSettings(), hidden=[ours.parent, ours, tmp_path / "missing", Path("/"), Path("/usr/lib")])
    try:
        browser.assert_sandboxed()
        assert browser.running is not None
        if not browser.running.isolation.mounts:
            pytest.skip(f"no mount namespace here: {browser.running.isolation.missing}")
        sight = Path(f"/proc/{chromium_under_test(browser)}/root")
        found = [sight / str(path)[1:] for path in (ours.parent, other / "key", ours)]
        assert [path.exists() for path in found] == [True, True, False]
        assert list(found[0].iterdir()) == []
        assert not any("hiding" in missing for missing in browser.running.isolation.missing)
        assert (ours / "key").read_text() == "secret"
    finally:
        browser.close()


def test_a_browser_that_is_installed_in_a_hidden_folder_runs_all_the_same() -> None:
    with tempfile.TemporaryDirectory() as home:
        launcher = Path(home) / "programs" / "chromium"
        launcher.parent.mkdir()
        for folder in (launcher.parent, launcher.parent.parent):
            folder.chmod(0o755)
        launcher.write_text(f'#!/bin/sh\nexec {find_chromium(None, "")} "$@"\n')
        launcher.chmod(0o755)
        browser = Browser(CrawlSettings(chromium_path=launcher), hidden=[Path(home)])
        try:
            assert browser.assert_sandboxed() == launcher
        finally:
            browser.close()


@as_root
def test_a_plain_user_has_the_same_sandbox_and_network(tmp_path: Path) -> None:
    """As a worker that is not root runs: in a mount namespace in which it may read the interpreter of this test."""
    script = tmp_path / "plain.py"
    script.write_text("""
import json, os
from sluice.ingest.browser.browser import Browser
from sluice.ingest.settings import CrawlSettings
home = os.environ["HOME"]
assert os.listdir(home) == ["key"]
browser = Browser(CrawlSettings(browser_network="isolated"), hidden=[home])
browser.assert_sandboxed()
seen = os.listdir(f"/proc/{browser.running.pid}/root{home}")
print(json.dumps([os.getuid(), browser.running.isolation.network, browser.running.isolation.processes, "key" in seen]))
browser.close()
""")
    tmp_path.chmod(0o755)
    answer = _as_plain_user(script)
    uid, network, processes, sees_key = json.loads(answer.splitlines()[-1])
    assert uid != 0
    assert network
    assert processes
    assert not sees_key


def _as_plain_user(script: Path) -> str:
    home, parent = Path(sys.base_prefix), Path("/mnt")
    open_up = f"""set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs {parent}
mkdir {parent}/home {parent}/script {parent}/tmp {parent}/own
echo secret > {parent}/own/key
cp {script} {parent}/script/plain.py
chmod 1777 {parent}/tmp
mount --bind {home} {parent}/home
mount -t tmpfs -o mode=755 tmpfs /root
mkdir -p {home}
mount --bind {parent}/home {home}
export HOME={parent}/own TMPDIR={parent}/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={Path.cwd()}
exec setpriv --reuid nobody --regid nogroup --clear-groups {sys.executable} {parent}/script/plain.py
"""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", open_up], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout


def test_two_crawls_share_no_cookie_storage_cache_or_channel(world: World) -> None:
    assert "stored seen=11" in world.render("/store").html
    world.seen.clear()
    assert 'recalled ["","","",[],[]]' in world.render("/recall").html
    assert "/cached" in world.seen


def test_two_pages_at_the_same_time_do_not_hear_each_other(world: World) -> None:
    with ThreadPoolExecutor(2) as threads:
        listening = threads.submit(world.render, "/listening")
        time.sleep(0.2)
        threads.submit(world.render, "/store").result()
        assert "heard nothing" in listening.result().html


def test_each_page_is_carried_with_its_own_credentials(world: World) -> None:
    """A page whose credentials are wrong gets nothing, also right after one whose were right."""
    world.render("/plain")
    world.seen.clear()
    wrong = world.proxy_url.replace("pass%3Aword", "guess")
    with pytest.raises(PolicyRefused, match="password"):
        world.browser.render(
            world.origin + "/plain", proxy_url=wrong, user_agent="T/1", limits=RenderLimits(40, 10_000)
        )
    assert world.seen == []


def test_the_launcher_names_what_is_not_to_be_had(tmp_path: Path) -> None:
    """In a network of which no further one may be made: the limit of a user namespace of the test's own."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    script = f"""
import json, sys
sys.path.insert(0, {str(Path(sluice.__file__).parents[1])!r})
from sluice.ingest.browser import namespace
for kind in ("net", "pid"):
    open(f"/proc/sys/user/max_{{kind}}_namespaces", "w").write("0")
found = namespace.find_isolation(namespace.Plan(egress_grant="", process_id="", network=True))
print(json.dumps([found.network, found.processes, found.missing]))
"""
    command = ["unshare", "--user", "--map-root-user", sys.executable, "-I", "-S", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    network, processes, missing = json.loads(done.stdout)
    assert (network, processes) == (False, False)
    assert [entry.partition(":")[0] for entry in missing] == ["network namespace", "process namespace"]


def test_switches_that_are_lists_are_put_together_since_the_browser_heeds_the_last_alone() -> None:
    merged = namespace.merged_switches(["--disable-features=A,B", "--headless", "--disable-features=C"])
    assert merged == ["--disable-features=A,B,C", "--headless"]


def test_ending_a_browser_leaves_no_member_of_its_family(world: World) -> None:
    browser = Browser(CrawlSettings())
    world.render("/plain", browser=browser)
    members = family(chromium_under_test(browser))
    browser.close()
    assert not [pid for pid in members if runs(pid)]
