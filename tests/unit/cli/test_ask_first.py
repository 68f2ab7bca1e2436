"""A question to the operator: its answers, nobody to answer it, and Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

ASK = (
    "import signal, sys, typer\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background job ignores it
    "from sluice.cli.command import ask_first\n"
    "try:\n"
    "    ask_first('Empty it?', yes=False)\n"
    "except typer.Exit as ending:\n"
    "    sys.exit(ending.exit_code)\n"
    "except Exception as error:\n"
    "    sys.exit(str(error))\n"
)


def asked(answer: str | None, number: int = 0) -> tuple[int, str]:
    """Exit code and errors of the question: answered, or `None` with this signal once it was asked."""
    command = [sys.executable, "-u", "-c", ASK]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        said = process.stderr.read(9)
        if answer is None:
            process.send_signal(number)
        else:
            process.stdin.write(answer.encode())
            process.stdin.close()
        said += process.stderr.read()
        return process.wait(60), said.decode()


@pytest.mark.parametrize(
    ("answer", "code", "said"), [("y\n", 0, ""), ("n\n", 1, "nothing was removed"), ("", 1, "there is nobody to ask")]
)
def test_an_answer_counts_and_none_is_told_so(answer: str, code: int, said: str) -> None:
    ended, told = asked(answer)
    assert (ended, said in told) == (code, True)


def test_an_interruption_is_no_missing_answer() -> None:
    ended, told = asked(None, signal.SIGINT)
    assert (ended, "nobody" in told) == (130, False), told
