"""Files that teach nothing: made by tools, fetched, or kept for tools. No learning is made of them by rule (F33)."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_FOLDERS = frozenset((
    "node_modules", "bower_components", "jspm_packages", "vendor", "vendored", "third_party", "third-party", "thirdparty", "external", "pods",
    ".git", ".hg", ".svn", ".jj", ".ralph", ".claude", ".cursor", ".aider", ".openhands", ".idea", ".vscode", ".vs", ".fleet", ".history",
    ".venv", "venv", "virtualenv", "site-packages", ".tox", ".nox", ".eggs", "__pypackages__", ".pixi", ".conda",
    "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".ipynb_checkpoints", ".import_linter_cache",
    ".cache", ".parcel-cache", ".turbo", ".nx", ".eslintcache", ".sass-cache", ".gradle", ".m2", ".terraform", ".serverless", ".yarn", ".pnpm-store", ".npm", ".bundle", ".dart_tool",
    "dist", "build", "out", "target", "_build", "bazel-out", "bazel-bin", "cmake-build-debug", "cmake-build-release", ".next", ".nuxt", ".svelte-kit", ".output", ".vercel", ".netlify", ".docusaurus",
    "htmlcov", "coverage", ".nyc_output", "test-results", "playwright-report", "logs", "log", "tmp", "temp", ".tmp",
    "generated", "__generated__", "gen", "autogen", "__snapshots__", "deriveddata", ".build",
))  # fmt: skip
_NAMES = frozenset((
    "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "pnpm-lock.yml", "bun.lockb", "bun.lock", "deno.lock",
    "poetry.lock", "pipfile.lock", "uv.lock", "pdm.lock", "pixi.lock", "conda-lock.yml", "cargo.lock", "gemfile.lock", "composer.lock",
    "go.sum", "go.work.sum", "mix.lock", "pubspec.lock", "podfile.lock", "package.resolved", "packages.lock.json", "flake.lock", "gradle.lockfile", "cartfile.resolved", "buf.lock", ".terraform.lock.hcl", "paket.lock",
    ".ds_store", "thumbs.db", "desktop.ini", ".env", ".netrc", ".npmrc", ".pypirc", ".coverage", "coverage.xml", "lcov.info", "junit.xml", "npm-debug.log", "nohup.out", "tags", ".eslintcache", ".tsbuildinfo",
    "rag_config.json", "nul", ".gitkeep", ".keep",
))  # fmt: skip
_ENDINGS = re.compile(
    r"(?:\.min\.(?:js|css|mjs|html)|\.bundle\.(?:js|css)|\.chunk\.(?:js|css)|\.(?:js|css|mjs|ts)\.map|-lock\.(?:json|ya?ml)|\.lock|\.lockb|"
    r"\.pyc|\.pyo|\.pyd|\.class|\.o|\.obj|\.a|\.so(?:\.\d+)*|\.dylib|\.dll|\.exe|\.wasm|\.jar|\.war|\.whl|\.egg|\.rlib|\.rmeta|\.d|\.gcda|\.gcno|\.tsbuildinfo|"
    r"\.log(?:\.\d+)?|\.tmp|\.temp|\.bak|\.orig|\.rej|\.swp|\.swo|~|\.pid|\.seed|\.cache|\.snap|\.prof|\.dmp|\.coverage|"
    r"\.sqlite3?(?:-(?:wal|shm|journal))?|\.db(?:-(?:wal|shm|journal))?|\.png|\.jpe?g|\.gif|\.ico|\.webp|\.pdf|\.zip|\.tar|\.t?gz|\.bz2|\.xz|\.7z|\.woff2?|\.ttf|\.eot|\.mp[34]|\.bin|\.pt|\.onnx|\.parquet|"
    r"_pb2(?:_grpc)?\.pyi?|\.pb\.(?:go|cc|h|rs)|\.g\.dart|\.freezed\.dart|\.generated\.\w+|_generated\.\w+|\.gen\.\w+|\.g\.cs|\.designer\.cs|\.pem|\.key|\.p12|\.crt|\.egg-info)$"
)  # fmt: skip
_ENVIRONMENT = re.compile(r"\.env(?:\.(?!example$|sample$|template$|dist$|defaults$)[\w.-]+)?$")
_FOLDER_ENDINGS = (".egg-info", ".dist-info", ".xcodeproj", ".xcworkspace", ".app", ".framework")


def should_exclude_from_auto_accumulation(path: str) -> bool:
    """Whether nothing is to be learned by rule from a file: lock files, dependencies, outputs, caches, logs, secrets.

    `path` is relative to the project, or absolute. What a person or an agent says of such a file is still a learning.
    """
    parts = [part for part in path.replace("\\", "/").lower().split("/") if part not in ("", ".")]
    if not parts:
        return True
    *folders, name = parts
    if any(folder in _FOLDERS or folder.endswith(_FOLDER_ENDINGS) for folder in folders):
        return True
    if name in _NAMES or name in (".git", "node_modules", "__pycache__"):
        return True
    return bool(_ENDINGS.search(name)) or bool(_ENVIRONMENT.fullmatch(str(PurePosixPath(name))))
