"""The separate environment of the `ragas` package, since it brings 700 MB and versions that conflict with Sluice's.

A plain install cannot be imported: it resolves a `langchain-community` without a module that `ragas` 0.4.3 needs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, Field, ValidationError

from sluice.contracts.base import Value
from sluice.contracts.errors import InvalidSetting, TimedOut, Unavailable, first_problem
from sluice.evaluation.chat_endpoint import JudgeSettings

AT = (1, 5, 10)


class RagasMetrics(Value):
    """The RFC's `RAGASMetrics`. `recall_at_k` is recall among the first 1, 5 and 10.

    `groundedness` and `faithfulness` are None if no answer could be judged; `judged` counts the judged answers of each,
    `method` is their method: an LLM through the `ragas` package, or support by sentences (`evaluation.ragas.bridge`).
    """

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    recall_at_k: Annotated[tuple[float, ...], Field(alias="recallAtK")]
    mrr: float
    groundedness: float | None = None
    faithfulness: float | None = None
    judged: dict[str, int] = Field(default_factory=dict)
    method: dict[str, str] = Field(default_factory=dict)


class Response(Value):
    """A line of a file of answers: the case, by its id or its question, and the answer."""

    id: str | None = None
    query: str | None = None
    response: Annotated[str, Field(min_length=1, max_length=32_000)]


class AnsweredQuestion(NamedTuple):
    """A question, the passages that its answer was made from, and the answer."""

    query: str
    passages: tuple[str, ...]
    response: str


PINS = (
    "ragas==0.4.3",
    "langchain-community==0.3.31",
    "langchain-core==0.3.86",
    "langchain-openai==0.3.35",
    "langchain==0.3.30",
)
FOLDER = "ragas"
"""Folder name in the data directory."""
INSTALL_SECONDS = 3_600
START_SECONDS = 60
"""Start time: the package's import takes some ten seconds."""
CALLS_AN_ANSWER = 4
_SCRIPT = Path(__file__).with_name("run_ragas.py")


class RagasScore(Value):
    """The scores of one answer by `ragas`. None: not available, for the reasons in `failures`."""

    faithfulness: Annotated[float | None, Field(ge=0, le=1)] = None
    groundedness: Annotated[float | None, Field(ge=0, le=1)] = None
    failures: tuple[str, ...] = ()


class RagasReply(Value):
    """The scores of all answers by `ragas`, in order, and the tokens that its judge used."""

    scores: tuple[RagasScore, ...]
    tokens: Annotated[int, Field(ge=0)] = 0


def find_python(folder: Path) -> Path | None:
    """Return the interpreter of the environment in `folder`; None if it is not installed."""
    python = folder / "bin" / "python"
    return python if (folder / "installed.json").is_file() and python.exists() else None


def install(folder: Path) -> None:
    """Install the environment in `folder`: some 700 MB, a few minutes. An existing one is replaced.

    Raises `Unavailable`, with the installer's last line, if a step fails, and `TimedOut` if one takes over an hour.
    """
    done = folder / "installed.json"
    done.unlink(missing_ok=True)
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input", *PINS])
    done.write_text(json.dumps(PINS))


def judge_answers(
    python: Path, settings: JudgeSettings, proxy_url: str | None, answers: Sequence[AnsweredQuestion], most_tokens: int
) -> RagasReply:
    """Judge each answer with `ragas` and the model of the settings, through the proxy.

    Once `most_tokens` are used, the remaining figures stay unknown. Raises `InvalidSetting` if the settings name no
    model, `TimedOut` after the limit of all calls together, and `Unavailable` if the environment is damaged.
    """
    if settings.model is None:
        raise InvalidSetting("judge.model", "not set, so there is no judge", "name a model of the endpoint")
    asked = {
        "model": settings.model,
        "base_url": settings.base_url,
        "api_key": settings.api_key.get_secret_value() if settings.api_key else None,
        "proxy_url": proxy_url,
        "timeout_seconds": settings.timeout_seconds,
        "most_tokens": most_tokens,
        "answers": [answer._asdict() for answer in answers],
    }
    most = START_SECONDS + CALLS_AN_ANSWER * settings.timeout_seconds * len(answers)
    with tempfile.TemporaryDirectory(prefix="sluice-ragas-") as home:
        said = _run([str(python), str(_SCRIPT)], json.dumps(asked), most, home)
    try:
        reply = RagasReply.model_validate_json(said)
    except ValidationError as error:
        raise Unavailable(f"ragas gave no figures: {': '.join(first_problem(error))}") from error
    if len(reply.scores) != len(answers):
        raise Unavailable(f"ragas judged {len(reply.scores)} of {len(answers)} answers")
    return reply


def _run(
    command: list[str], given: str | None = None, seconds: float = INSTALL_SECONDS, home: str | None = None
) -> str:
    """Return the command's output. With `home` the command does not get this process's environment variables."""
    environment = {"HOME": home, "PATH": "/usr/bin:/bin", "RAGAS_DO_NOT_TRACK": "true"} if home else None
    try:
        done = subprocess.run(  # noqa: S603 (a list of our own words, no shell)
            command,
            input=given,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=environment,
            cwd=home,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TimedOut(f"{Path(command[0]).name} took longer than {seconds:g} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise Unavailable(f"{Path(command[0]).name} failed with {done.returncode}: {last[:300]}")
    return done.stdout
