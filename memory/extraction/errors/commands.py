"""What a shell command ran: its programs, whether they only show files, which of them its exit status speaks for."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

MAX_CHARACTERS = 20_000
MAX_DEPTH = 4

READERS = frozenset({
    "ack", "ag", "apropos", "awk", "base64", "bat", "batcat", "bind", "cal", "cat", "cksum", "cmp", "column", "comm", "curl",
    "cut", "date", "df", "diff", "dig", "dirname", "du", "echo", "egrep", "env", "export", "fd", "fdfind", "fgrep",
    "file", "find", "find_file", "fold", "free", "goto", "grep", "head", "hexdump", "history", "host", "hostname",
    "id", "info", "journalctl", "jq", "less", "ls", "lsof", "man", "md5sum", "more", "nl", "nslookup", "od", "open",
    "pgrep", "ping", "printenv", "printf", "ps", "pwd", "readlink", "realpath", "rev", "rg", "scroll_down", "scroll_up",
    "search_dir", "search_file", "sed", "seq", "sha256sum", "sleep", "sort", "ss", "stat", "str_replace_editor",
    "strings", "tac", "tail", "tee", "test", "tldr", "top", "tr", "tree", "type", "uname", "uniq", "view", "wait", "wc",
    "wget", "which", "whereis", "whoami", "xxd", "yq", "zcat", "zgrep", "true", "[", "[[", "basename", "colordiff",
    "exa", "eza", "delta", "dmesg", "read", "umask", "uptime", "create", "submit", "expr", "set", "unset", "shopt",
    "trap", "exit", "ulimit", "cd", "pushd", "popd", "source", ".",
})  # fmt: skip
"""They show what lies in files and logs; what they print of errors others met long ago."""

_GIT_READERS = frozenset({
    "blame", "branch", "cat-file", "diff", "grep", "log", "ls-files", "reflog", "remote", "rev-parse", "shortlog",
    "show", "stash", "status", "describe", "tag", "config", "help", "format-patch", "whatchanged", "range-diff",
})  # fmt: skip
_SUBCOMMAND_READERS = {
    "docker": frozenset({"logs", "ps", "images", "inspect"}),
    "podman": frozenset({"logs", "ps", "images", "inspect"}),
    "kubectl": frozenset({"logs", "get", "describe"}),
    "gh": frozenset({"issue", "pr", "run", "api", "release", "repo"}),
    "pip": frozenset({"show", "list", "freeze", "help"}),
    "systemctl": frozenset({"status"}),
    "npm": frozenset({"ls", "list", "view", "outdated", "help"}),
    "ruff": frozenset({"rule", "help", "config"}),
    "rustc": frozenset({"--explain"}),
    "apt": frozenset({"list", "search", "show"}),
    "heroku": frozenset({"logs"}),
}
_WRAPPERS = frozenset({
    "sudo", "time", "timeout", "nice", "nohup", "exec", "command", "stdbuf", "xargs", "unbuffer", "doas", "setsid",
    "then", "do", "else", "if", "while", "until", "!", "{", "builtin", "eval", "xvfb-run", "ionice", "gtimeout",
    "chronic", "strace", "catchsegv",
})  # fmt: skip
_VALUED = frozenset({"-n", "-s", "-k", "-u", "-C", "-I", "-P", "-L", "-g", "-c", "-p", "-d", "--with", "--python", "--extra",
                     "--group", "--project", "--directory", "--prefix", "-E"})  # fmt: skip
_RUNNERS = {"uv": "run", "poetry": "run", "pipenv": "run", "hatch": "run", "pdm": "run", "rye": "run", "bundle": "exec",
            "pnpm": "exec", "npm": "exec", "conda": "run", "mise": "exec", "rustup": "run"}  # fmt: skip
_DIRECT_RUNNERS = frozenset({"npx", "bunx", "uvx", "pipx"})
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_LOOPS = frozenset({"for", "done", "fi", "case", "esac", "function", "select", "}", "in"})

_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)([A-Za-z_]\w{0,60})\1")
_TOKEN = re.compile(
    r"\$?'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|&&|\|\||\|&|;;|[0-9]?>>?(?:&[0-9-])?|&>|<[<(]?|[;&|\n()]|[ \t\r]+|[^\s'\"\\;&|()<>]+|.",
    re.DOTALL,
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w{0,80}\+?=")
_VERSIONED = re.compile(
    r"(?:[a-z0-9_]{2,12}-[a-z0-9_]{2,12}-(?:[a-z0-9]{2,12}-)?)?(python|pypy|pip|gcc|g\+\+|clang|clang\+\+|cc|c\+\+|node|go|clang-tidy)-?\d*(?:\.\d+)*"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One simple command: its program (`python -m pytest` is `pytest`), its words, and what joins it to the next."""

    program: str
    words: tuple[str, ...]
    then: str

    @property
    def reads(self) -> bool:
        """Whether it only shows what lies in files, logs or the history of git."""
        program, rest = self.program, _arguments(self.words[1:])
        if program == "sed":
            return not any(re.match(r"-[a-zA-Z]*i|--in-place", word) for word in self.words)
        if program == "find":
            return not {"-exec", "-execdir"} & set(self.words)
        if program in READERS or {"--help", "--version"} & set(self.words[1:]):
            return True
        first = rest[0] if rest else ""
        if program == "git":
            return first in _GIT_READERS
        return first in _SUBCOMMAND_READERS.get(program, ()) or "--explain" in self.words[1:2]


def _arguments(words: Sequence[str]) -> list[str]:
    """Without options, and without what belongs to `-C` and `-c` (of git)."""
    return [word for before, word in pairwise(["", *words]) if not word.startswith("-") and before not in ("-C", "-c")]


@dataclass(frozen=True, slots=True)
class Commands:
    """The steps of a command; `folder` is where a leading `cd` went.

    `strict` and `pipefail` are those of `set -e` and `set -o pipefail`; `looped`: a loop's status is its last round's.
    """

    steps: tuple[Step, ...]
    folder: str | None = None
    strict: bool = False
    pipefail: bool = False
    looped: bool = False

    def doubtful(self) -> tuple[Step, ...]:
        """Steps that may have failed although the whole exited with 0: before a pipe, a `;` or an `||`."""
        steps = self.steps
        if self.looped:
            return steps
        found = []
        for number, step in enumerate(steps):
            lenient = {
                "--exit-zero",
                "--exit-zero-even-if-changed",
                "-k",
                "--keep-going",
                "--no-error-on-unmatched-pattern",
            }
            kept = (
                step.then in ("", "&&")
                or (step.then in ("|", "|&") and self.pipefail)
                or (step.then in (";", "\n") and self.strict)
            )
            last = all(one.then in (";", "\n", "") and one.program in ("", "cd") for one in steps[number:])
            if not (kept or last) or (lenient & set(step.words) and step.program in ("ruff", "flake8", "pylint")):
                found.append(step)
        return tuple(found)


def read_command(command: str) -> Commands:
    """The steps of a POSIX shell command, with those of `bash -c` in it. Here-documents are not part of it."""
    steps: list[Step] = []
    state = {"strict": False, "pipefail": False, "looped": False}
    folder = _read(_without_heredocs(command)[:MAX_CHARACTERS], steps, state, 0)
    return Commands(tuple(steps), folder, state["strict"], state["pipefail"], state["looped"])


def _read(text: str, steps: list[Step], state: dict[str, bool], depth: int) -> str | None:
    folder: str | None = None
    for words, joined in _simple_commands(text):
        words = _unwrapped(words)
        if not words:
            continue
        program = _program(words[0])
        if program in _LOOPS:
            state["looped"] = state["looped"] or program == "for"
            continue
        if program == "cd":
            if len(words) > 1 and not re.search(r"[$`~*]", words[1]) and all(step.reads for step in steps):
                folder = posixpath.join(folder or "", words[1])
            steps.append(Step("cd", tuple(words), joined))
            continue
        if program == "set":
            flags = " ".join(words[1:])
            state["strict"] |= bool(re.search(r"-[a-z]*e", flags))
            state["pipefail"] |= "pipefail" in flags
            continue
        if program in _SHELLS and depth < MAX_DEPTH:
            inner = next(
                (words[number + 1] for number, word in enumerate(words[:-1]) if re.fullmatch(r"-[a-z]*c", word)), None
            )
            if inner is not None:
                count = len(steps)
                folder = _read(_without_heredocs(inner), steps, state, depth + 1) or folder
                if len(steps) > count:
                    steps[-1] = Step(steps[-1].program, steps[-1].words, joined)
                continue
        program, words = _module(program, words)
        steps.append(Step(program, tuple(words), joined))
    return folder


def _simple_commands(text: str) -> list[tuple[list[str], str]]:
    found: list[tuple[list[str], str]] = []
    words: list[str] = []
    word: str | None = None
    redirected = False
    for piece in _TOKEN.findall(text):
        if piece.isspace() and piece != "\n":
            if word is not None:
                if not redirected:
                    words.append(word)
                redirected = False
            word = None
        elif piece in ("&&", "||", "|", "|&", ";", ";;", "\n", "&", "(", ")"):
            if word is not None and not redirected:
                words.append(word)
            word, redirected = None, False
            if words:
                found.append((words, piece))
                words = []
            elif found and piece not in ("\n", "(", ")") and found[-1][1] in (")", "\n"):
                found[-1] = (found[-1][0], piece)
        elif piece[0] in "<>" or piece[:2] in ("1>", "2>", "&>"):
            if word is not None and not redirected:
                words.append(word)
            word, redirected = None, not piece.endswith(("&1", "&2", "&-"))
        else:
            word = (word or "") + _unquoted(piece)
    if word is not None and not redirected:
        words.append(word)
    if words:
        found.append((words, ""))
    return found


def _unquoted(piece: str) -> str:
    if piece == "\\\n":
        return ""
    if piece[0] == "'" or piece[:2] == "$'":
        return piece[piece.index("'") + 1 : -1] if len(piece) > 1 and piece.endswith("'") else piece
    if piece[0] == '"':
        return re.sub(r'\\([\\"$`\n])', r"\1", piece[1:-1]) if len(piece) > 1 else ""
    return piece[1:] if piece[0] == "\\" and len(piece) > 1 else piece


def _unwrapped(words: list[str]) -> list[str]:
    """Without what stands before the program: assignments, `sudo`, `timeout 60`, `uv run`, `npx`."""
    while words:
        first = _program(words[0])
        if _ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif first in _WRAPPERS or (first == "env" and len(words) > 1) or first in _DIRECT_RUNNERS:
            rest = _after_options(words[1:])
            if first in ("timeout", "gtimeout", "strace") and rest and re.match(r"\d", rest[0]):
                rest = rest[1:]
            if first == "pipx" and rest and rest[0] == "run":
                rest = rest[1:]
            words = rest
        elif first in _RUNNERS and len(words) > 1 and words[1] == _RUNNERS[first]:
            rest = _after_options(words[2:])
            words = rest[1:] if first == "rustup" else rest
        else:
            break
    return words


def _after_options(words: list[str]) -> list[str]:
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in _VALUED else words[1:]
    return words


def _program(word: str) -> str:
    name = posixpath.basename(word.replace("\\", "/")) if "/" in word or "\\" in word else word
    name = name.removesuffix(".exe").removesuffix(".cmd")
    versioned = _VERSIONED.fullmatch(name)
    return versioned[1] if versioned else name


def _module(program: str, words: list[str]) -> tuple[str, list[str]]:
    """`python -m pytest` is `pytest`; `coverage run -m pytest` too."""
    if program in ("python", "pypy", "py", "coverage"):
        for number, word in enumerate(words[1:-1], start=1):
            if word == "-m":
                name = words[number + 1]
                return _module(name, words[number + 1 :]) if name == "coverage" else (name, words[number + 1 :])
            if not word.startswith("-") and program != "coverage" and words[number - 1] not in ("-W", "-X"):
                break
    return ("pytest" if program == "py.test" else program), words


def _without_heredocs(command: str) -> str:
    if "<<" not in command:
        return command
    kept: list[str] = []
    waiting: list[str] = []
    for line in command.split("\n"):
        if waiting:
            if line.strip() == waiting[0]:
                waiting.pop(0)
            continue
        kept.append(_HEREDOC.sub("", line) if "<<" in line else line)
        waiting = [match[2] for match in _HEREDOC.finditer(line)][:8] if "<<" in line else []
    return "\n".join(kept)
