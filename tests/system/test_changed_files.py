"""A repository's changes, sent to a real Sluice by the script of the workflow deploy/github/index-changed-files.yml."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.instance import Instance, free_port
from tests.support.repository import REPOSITORY

GITHUB = REPOSITORY / "deploy" / "github"
SCRIPT = GITHUB / "send-changed-files.sh"
NOUGHTS = "0" * 40

pytestmark = pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("git", "jq", "curl", "iconv")), reason="needs git, jq, curl and iconv"
)


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with Instance(tmp_path_factory.mktemp("instance"), REQUIRE_API_KEY="false") as running:
        yield running


class Repository:
    """A git repository whose commits are sent to a corpus."""

    def __init__(self, folder: Path, instance: Instance, corpus: str, key: str) -> None:
        self.folder = folder
        self._corpus, self._http, self._key = corpus, instance.http, key
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GIT", "SLUICE"))},
            "SLUICE_URL": instance.url,
            "SLUICE_API_KEY": key,
            "SLUICE_CORPUS": corpus,
            "GITHUB_REPOSITORY": "acme/shop",
        }
        self._git("init", "--quiet", "--initial-branch=main")

    def commit(self, changes: dict[str, str | bytes | None]) -> str:
        """Write files, remove those that are None, and commit; the commit."""
        for name, content in changes.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)
        self._git("add", "--all")
        self._git("-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "--message", "change")
        return self._git("rev-parse", "HEAD").strip()

    def send(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", str(SCRIPT), *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def found(self, query: str) -> dict[str, str]:
        """Paths with their passages that a search by words gives."""
        asked = {"query": query, "corpus": self._corpus, "strategy": "bm25", "top_k": 50}
        answer = self._http.post("/v1/query", json=asked, headers={"Authorization": f"Bearer {self._key}"}).json()
        return {chunk["file_path"]: chunk["text"] for chunk in answer["chunks"]}

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout


@pytest.fixture
def repository(instance: Instance, tmp_path: Path, request: pytest.FixtureRequest) -> Repository:
    corpus = request.node.name.replace("_", "-")[:40].strip("-")
    made = instance.sluice("keys", "create", corpus, "--corpus", corpus)
    key = made.stdout.split()[1]
    return Repository(tmp_path, instance, corpus, key)


def test_what_changed_is_sent_and_what_is_gone_is_removed(repository: Repository) -> None:
    first = repository.commit(
        {
            "src/shop/cart.py": "def add(item):\n    return 'walrus'\n",
            "docs/with blank & ümlaut.md": "# Walrus\n\nA walrus buys.\n",
            "docs/old.md": "# Old\n\nThe walrus was here.\n",
            "docs/gone.md": "# Gone\n\nThe walrus leaves.\n",
            "logo.png": b"\x89PNG\0walrus",
        }
    )
    sent = repository.send(NOUGHTS, first)
    assert sent.returncode == 0, sent.stderr
    assert "4 files sent, 0 removed" in sent.stdout
    assert "left out: logo.png" in sent.stderr
    assert repository.found("walrus").keys() == {
        "src/shop/cart.py", "docs/with blank & ümlaut.md", "docs/old.md", "docs/gone.md"
    }  # fmt: skip

    second = repository.commit(
        {
            "src/shop/cart.py": "def add(item):\n    return 'walrus and otter'\n",
            "docs/old.md": None,
            "docs/new.md": "# Old\n\nThe walrus was here.\n",
            "docs/gone.md": None,
        }
    )
    sent = repository.send(first, second)
    assert sent.returncode == 0, sent.stderr
    assert "2 files sent, 2 removed" in sent.stdout
    found = repository.found("walrus")
    assert found.keys() == {"src/shop/cart.py", "docs/with blank & ümlaut.md", "docs/new.md"}
    assert "otter" in found["src/shop/cart.py"]

    again = repository.send(first, second)
    assert again.returncode == 0, again.stderr
    assert repository.found("walrus") == found


def test_a_file_that_becomes_binary_or_a_link_is_removed_and_an_edit_that_is_taken_back_counts(
    repository: Repository,
) -> None:
    first = repository.commit({"a.md": "A walrus.\n", "b.md": "A walrus too.\n", "c.md": "A third walrus.\n"})
    (repository.folder / "b.md").unlink()
    (repository.folder / "b.md").symlink_to("a.md")
    second = repository.commit({"a.md": b"\0walrus", "c.md": "An otter.\n"})
    third = repository.commit({"c.md": "A third walrus.\n"})
    assert repository.send("", first).returncode == 0
    assert repository.send(first, second).returncode == 0
    assert repository.found("walrus otter").keys() == {"c.md"}
    assert repository.send(second, third).returncode == 0
    assert repository.found("walrus otter") == {"c.md": "A third walrus."}


def test_only_the_paths_that_are_named_are_sent(repository: Repository) -> None:
    head = repository.commit({"docs/a.md": "A walrus.\n", "src/a.py": "walrus = 1\n", "tests/t.py": "walrus = 2\n"})
    assert repository.send("", head, "docs", "src/*.py").returncode == 0
    assert repository.found("walrus").keys() == {"docs/a.md", "src/a.py"}


def test_a_key_of_another_corpus_or_an_address_that_does_not_answer_fails(repository: Repository) -> None:
    head = repository.commit({"a.md": "A walrus.\n"})
    refused = repository.send("", head, SLUICE_CORPUS="other")
    assert refused.returncode == 1
    assert "HTTP 403: this key may not touch corpus 'other'" in refused.stderr
    away = repository.send("", head, SLUICE_URL=f"http://127.0.0.1:{free_port()}")
    assert away.returncode == 1
    assert "no answer" in away.stderr


def test_the_workflow_uses_the_script_as_it_is_and_no_action_but_checkout() -> None:
    text = (GITHUB / "index-changed-files.yml").read_text()
    workflow = yaml.safe_load(text)
    steps = workflow["jobs"]["send"]["steps"]
    assert [step["uses"] for step in steps if "uses" in step] == ["actions/checkout@v4"]
    assert set(workflow["permissions"].values()) == {"read"}
    given = {name: step["env"] for step in steps for name in step.get("env", {})}
    assert {"SLUICE_URL", "SLUICE_API_KEY", "SLUICE_CORPUS"} <= set(given)
    for step in steps:
        assert "${{" not in step.get("run", ""), "what a pull request names must not become part of a command"
    assert re.findall(r"secrets\.(\w+)", text) == ["SLUICE_API_KEY"]
