"""Which files teach nothing."""

import pytest

from sluice.memory.learning.wording import should_exclude_from_auto_accumulation


@pytest.mark.parametrize(
    "path",
    [
        "package-lock.json", "web/yarn.lock", "Cargo.lock", "go.sum", "uv.lock", "flake.lock", "web/node_modules/left-pad/index.js", ".git/config", ".ralph/db/memory/auth.jsonl",
        "dist/main.js", "build/lib/x.py", "target/debug/app.d", "src/__pycache__/x.cpython-311.pyc", ".venv/lib/site-packages/a.py", "app/static/app.min.js", "app.js.map",
        "api/user_pb2.py", "src/generated/client.ts", "vendor/github.com/x/y.go", "logs/server.log", "server.log.1", ".env", ".env.production", "x.egg-info/PKG-INFO", "coverage/index.html",
        ".next/cache/a", ".terraform/x", "a/.DS_Store", "Pods/A/a.m", "./dist/x.js", "/repo/node_modules/x.js", "src\\node_modules\\x.js", "ui/__snapshots__/a.test.js.snap", "",
    ],
)  # fmt: skip
def test_infrastructure_is_excluded(path: str) -> None:
    assert should_exclude_from_auto_accumulation(path)


@pytest.mark.parametrize(
    "path",
    [
        "src/auth.py", "package.json", "Cargo.toml", "pyproject.toml", "README.md", "docs/build.md", "src/builder.py", "src/distance.py", "tests/test_log.py", "src/logging.py", ".github/workflows/ci.yml",
        "Makefile", "Dockerfile", ".env.example", "src/lock.py", "src/targets.rs", "go.mod", "requirements.txt", "src/cache.py", "src/generate.py", ".gitignore", "conftest.py", "src/env.ts",
    ],
)  # fmt: skip
def test_what_people_write_is_not(path: str) -> None:
    assert not should_exclude_from_auto_accumulation(path)
