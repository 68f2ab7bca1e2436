"""The browser's seccomp profile, tried for real: Chromium runs under it as the crawl service runs it.

That is: as an ordinary user who cannot gain privileges, so that only its own namespace sandbox is left.
"""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sluice
from tests.support.repository import REPOSITORY

PROFILE = REPOSITORY / "deploy/chromium-seccomp.json"

_ALLOW, _ERRNO, _EQUAL, _NO_NEW_PRIVILEGES = 0x7FFF0000, 0x00050000, 4, 38


class _Comparison(ctypes.Structure):
    _fields_ = [
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    ]


def _become_confined(profile: dict[str, Any], user: pwd.struct_passwd, without: frozenset[str]) -> Callable[[], None]:
    """What a child runs before it becomes Chromium: an ordinary user, no new privileges, the filter loaded."""
    seccomp = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    seccomp.seccomp_load.argtypes = [ctypes.c_void_p]
    seccomp.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Comparison)
    ]  # fmt: skip
    filter_ = seccomp.seccomp_init(_ERRNO | profile["defaultErrnoRet"])
    for rule in profile["syscalls"]:
        action = _ALLOW if rule["action"] == "SCMP_ACT_ALLOW" else _ERRNO | rule["errnoRet"]
        arguments = [_Comparison(entry["index"], _EQUAL, entry["value"], 0) for entry in rule.get("args", [])]
        for name in set(rule["names"]) - without:
            number = seccomp.seccomp_syscall_resolve_name(name.encode())
            array = (_Comparison * max(1, len(arguments)))(*arguments)
            if number != -1:  # a call that this libseccomp is too old to know
                assert seccomp.seccomp_rule_add_array(filter_, action, number, len(arguments), array) == 0, name

    def confine() -> None:
        if os.getuid() == 0:
            os.setgroups([])
            os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
            os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
        ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        if seccomp.seccomp_load(filter_) != 0:
            os._exit(99)

    return confine


def _chromium_under(profile_dir: Path, without: frozenset[str] = frozenset()) -> str:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no Chromium on the PATH")
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("libseccomp is not installed")
    user = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    if os.getuid() == 0:
        os.chown(profile_dir, user.pw_uid, user.pw_gid)
    done = subprocess.run(
        [chromium, "--headless", "--disable-gpu", f"--user-data-dir={profile_dir}", "--dump-dom",
         "data:text/html,<script>document.write(6*7)</script>"],
        capture_output=True, text=True, timeout=60, check=False, cwd="/",
        env={"HOME": str(profile_dir), "PATH": os.environ["PATH"]},
        preexec_fn=_become_confined(json.loads(PROFILE.read_text()), user, without),
    )  # fmt: skip
    return done.stdout


@pytest.fixture
def profile_dir() -> Iterator[Path]:
    """A folder that an unprivileged Chromium can reach; pytest's own belongs to the user who runs the tests."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_chromium_runs_with_its_own_sandbox_under_the_seccomp_profile(profile_dir: Path) -> None:
    if not _user_namespaces():
        pytest.skip("this kernel gives ordinary users no namespaces")
    assert "42" in _chromium_under(profile_dir)


def test_under_the_profile_the_browser_can_have_a_network_and_processes_of_its_own() -> None:
    if not _user_namespaces():
        pytest.skip("this kernel gives ordinary users no namespaces")
    interpreter = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    if interpreter is None:
        pytest.skip("no interpreter that an ordinary user may run")
    script = f"""
import json, sys
sys.path.insert(0, {str(Path(sluice.__file__).parents[1])!r})
from sluice.ingest.browser import namespace
found = namespace.find_isolation(namespace.Plan(egress_grant="", process_id="", network=True))
print(json.dumps([found.network, found.processes]))
"""
    user = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    done = subprocess.run(
        [interpreter, "-I", "-S", "-c", script], capture_output=True, text=True, check=True, cwd="/",
        preexec_fn=_become_confined(json.loads(PROFILE.read_text()), user, frozenset()),
    )  # fmt: skip
    assert json.loads(done.stdout) == [True, True]


def test_without_what_the_profile_grants_for_the_sandbox_chromium_refuses_to_run(profile_dir: Path) -> None:
    assert "42" not in _chromium_under(profile_dir, without=frozenset({"chroot"}))


def _user_namespaces() -> bool:
    limit = Path("/proc/sys/user/max_user_namespaces")
    clone = Path("/proc/sys/kernel/unprivileged_userns_clone")
    return limit.read_text().strip() != "0" and (not clone.exists() or clone.read_text().strip() == "1")


def test_the_profile_withholds_what_a_browser_never_needs() -> None:
    rules = json.loads(PROFILE.read_text())["syscalls"]
    granted = {name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert not granted & {"mount", "ptrace", "bpf", "keyctl", "init_module", "setns", "pivot_root", "io_uring_setup"}
    assert {"clone", "unshare", "chroot"} <= granted
