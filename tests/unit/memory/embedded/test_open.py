"""Memory in an agent's own loop: a folder of a repository, and no service."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidSetting
from sluice.contracts.memory.api import StreamFormat
from sluice.ingest.embed.minilm import FINGERPRINT
from sluice.memory import open_memory
from sluice.memory.config import EmbedderConfig, RagConfig
from sluice.memory.qdrant_schema import collection_name
from tests.support.memory.facts import record
from tests.support.repository import IMPORT_PATH, MODELS, REPOSITORY

PLAIN: StreamFormat = "record"
WORDS = RagConfig(embedder=EmbedderConfig(provider="none"))
LOCAL = RagConfig(embedder=EmbedderConfig(model_folder=MODELS))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_loop_with_the_local_model(repository: Path) -> None:
    with open_memory(config=LOCAL) as memory:
        assert memory.project_path == str(repository)
        memory.record("auth", record(1).model_dump_json())
        memory.learn("auth", "the session cookie is rotated by the proxy", "seen in nginx.conf")
        found = memory.recall("auth", "who changes cookies of a session")
        assert (found.searched, found.behind) == ("hybrid", 0)
        assert found.results[0].text == "the session cookie is rotated by the proxy"
        status = memory.status()
        assert (status.engine, status.embedding_model) == ("local", FINGERPRINT)
        assert (status.index_available, status.embedder_available, status.behind) == (True, True, 0)
        assert status.collections == (collection_name(str(repository), "auth"),)
        assert status.problems == ()


def test_a_second_program_knows_what_the_first_one_recorded(repository: Path) -> None:
    with open_memory(config=WORDS) as memory:
        memory.record("auth", record(1).model_dump_json())
    with open_memory(config=WORDS) as memory:
        assert "TypeError: cannot read 'user'" in memory.prompt("auth").text
        assert memory.recall("auth", "middleware shape").results


def test_without_a_model_words_alone_are_searched_and_the_status_says_why(repository: Path) -> None:
    with open_memory(config=WORDS) as memory:
        memory.record("auth", record(1).model_dump_json())
        assert memory.recall("auth", "middleware").searched == "bm25"
        status = memory.status()
        assert not status.embedder_available
        assert status.embedding_model is None
        assert any("words alone" in problem for problem in status.problems)


def test_the_weights_may_be_missing(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.ingest.embed.tokens.PACKAGE", "no-such-package-of-weights")
    with open_memory() as memory:
        memory.record("auth", record(1).model_dump_json())
        assert memory.recall("auth", "middleware").searched == "bm25"
        assert any("is not installed" in problem for problem in memory.status().problems)


def test_without_an_index_the_journal_is_searched(repository: Path) -> None:
    with open_memory(config=RagConfig(engine="none")) as memory:
        memory.record("auth", record(1).model_dump_json())
        assert memory.recall("auth", "middleware").searched == "journal"
        assert memory.status().engine == "none"
    assert not (repository / ".ralph/db/index").exists()


def test_the_files_are_their_users_alone_and_git_leaves_the_index_out(repository: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
    with open_memory(config=WORDS) as memory:
        memory.record("auth", record(1).model_dump_json())
        memory.recall("auth", "middleware")
    modes = {
        name: stat.S_IMODE((repository / ".ralph/db" / name).stat().st_mode)
        for name in ("memory", "memory/auth.jsonl", "index")
    }
    assert modes == {"memory": 0o700, "memory/auth.jsonl": 0o600, "index": 0o700}
    status = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert "index" not in status.stdout


def test_rag_config_is_read_where_it_lies(repository: Path) -> None:
    (repository / ".ralph").mkdir()
    path = repository / ".ralph/rag_config.json"
    path.write_text(json.dumps({"engine": "none", "top_k": 1}))
    with open_memory() as memory:
        for number in (1, 2):
            memory.record("auth", record(number).model_dump_json())
        assert len(memory.recall("auth", "middleware").results) == 1
    path.write_text(json.dumps({"engin": "none"}))
    with pytest.raises(InvalidSetting, match=r"rag_config\.json: engin"):
        open_memory()


def test_the_project_is_the_folder_that_holds_ralph_wherever_one_stands(repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "shop/.ralph/db/memory"
    assert open_memory(folder).project_path == str(tmp_path / "shop")
    assert open_memory(tmp_path / "notes").project_path == str(repository)
    assert open_memory(folder, project_path="/srv/shop").project_path == "/srv/shop"


def test_f18_two_projects_with_the_same_feature_never_see_each_others_memory(tmp_path: Path) -> None:
    shops = [tmp_path / name / ".ralph/db/memory" for name in ("a", "b")]
    with open_memory(shops[0], config=WORDS) as one, open_memory(shops[1], config=WORDS) as other:
        one.record("auth", record(1).model_dump_json())
        assert other.recall("auth", "middleware").results == ()
        assert other.prompt("auth").text == ""
        other.learn("auth", "the middleware is fine here", "seen")
        assert set(one.status().collections).isdisjoint(other.status().collections)
        assert one.status().orphans == other.status().orphans == ()
        assert "fine here" not in one.prompt("auth").text


def test_a_feature_whose_journal_is_gone_leaves_an_orphan_that_can_be_dropped(repository: Path) -> None:
    with open_memory(config=WORDS) as memory:
        memory.record("auth", record(1).model_dump_json())
        memory.recall("auth", "middleware")
        (repository / ".ralph/db/memory/auth.jsonl").unlink()
        orphan = collection_name(str(repository), "auth")
        assert memory.status().orphans == (orphan,)
        assert memory.drop_orphans() == (orphan,)
        assert memory.status().orphans == ()


def test_secrets_and_addresses_of_people_are_masked_before_they_are_written(repository: Path) -> None:
    key = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
    with open_memory(config=WORDS) as memory:
        memory.record("auth", record(1, summary=f"Used {key}, as told by jane.doe@example.org").model_dump_json())
    kept = (repository / ".ralph/db/memory/auth.jsonl").read_text()
    assert key not in kept
    assert "jane.doe@example.org" not in kept


def test_recording_and_prompting_load_neither_model_nor_index() -> None:
    """An agent's loop that records between two iterations pays for no model and no index."""
    script = (
        "import sys, tempfile\n"
        "from sluice.memory import open_memory, IterationRecord\n"
        "folder = tempfile.mkdtemp()\n"
        "with open_memory(folder) as memory:\n"
        "    memory.record('auth', sys.argv[1])\n"
        "    memory.prompt('auth')\n"
        "    heavy = ('index', 'ingest', 'onnxruntime', 'faiss', 'tantivy', 'httpx2', 'openai', 'sqlalchemy')\n"
        "    print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, record(1).model_dump_json()],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_importing_memory_loads_nothing_of_it() -> None:
    script = "import sys, memory; print([name for name in sys.modules if name.startswith(('memory.', 'numpy'))])"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_two_programs_share_a_folder(repository: Path) -> None:
    """Each records, recalls and asks for prompts; nothing is lost, and each finds what the other recorded."""
    (repository / ".ralph").mkdir()
    (repository / ".ralph/rag_config.json").write_text('{"embedder": {"provider": "none"}}')
    script = (
        "import sys\n"
        "from sluice.memory import open_memory\n"
        "from tests.support.memory.facts import record\n"
        "first = int(sys.argv[1])\n"
        "with open_memory() as memory:\n"
        "    for number in range(first, first + 5):\n"
        "        assert memory.record('auth', record(number).model_dump_json()).is_new\n"
        "        assert f'Attempt {number}:' in str(memory.recall('auth', f'attempt {number}', top_k=20))\n"
        "        assert memory.prompt('auth').text\n"
    )
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(first)],
            cwd=repository,
            env={"PYTHONPATH": IMPORT_PATH, "PATH": "/usr/bin:/bin"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for first in (1, 101)
    ]
    assert [(program.communicate(timeout=90)[1], program.returncode) for program in programs] == [("", 0)] * 2
    with open_memory() as memory:
        found = memory.recall("auth", "attempt", top_k=20)
        assert (memory.status().records, found.behind, memory.status().behind) == (10, 0, 0)
        assert len([one for one in found.results if one.kind == "iteration"]) == 10


def test_without_the_libraries_of_the_index_memory_goes_by_the_journals_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in ("sluice.ingest.embed.tokens", "tokenizers", "tantivy", "faiss"):
        monkeypatch.setitem(sys.modules, library, None)
    with open_memory(tmp_path / "memory", tmp_path) as memory:
        memory.learn("auth", "login() reads the token from the header X-Auth", "test_login failed without the header")
        assert "X-Auth" in memory.prompt("auth").text
        found = memory.recall("auth", "where does login read the token")
        assert (found.searched, len(found.results)) == ("journal", 1)
        assert "pip install sluice" in " ".join(memory.status().problems)
