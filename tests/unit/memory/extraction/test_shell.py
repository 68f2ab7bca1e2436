"""What a shell command does to files, as far as its text is clear."""

from __future__ import annotations

import time

import pytest

from sluice.memory.extraction.file_uses import directory_before, read_shell
from sluice.memory.extraction.shell import found_nothing

EFFECTS = {
    "cat > src/x.py <<'EOF'\nimport a\nrm -rf /\nEOF\npython src/x.py": [("write", "src/x.py")],
    "echo a >> log.txt 2>&1 | tee -a b.txt": [("append", "log.txt"), ("append", "b.txt")],
    "make > /dev/null 2>errors.log": [("write", "errors.log")],
    "python -c \"print('> x')\" >out.txt": [("write", "out.txt")],
    "rm -rf build 'my dir'": [("delete", "build"), ("delete", "my dir")],
    "git rm a.py && git rm --cached b.py": [("delete", "a.py")],
    "mv a.py b/": [("delete", "a.py"), ("write", "b/a.py")],
    "git mv a.py b.py": [("delete", "a.py"), ("write", "b.py")],
    "sudo cp -r a b": [("read", "a"), ("write", "b")],
    "FOO=1 touch new.txt": [("append", "new.txt")],
    "sed -i 's/a/b/' f.py g.py": [("change", "f.py"), ("change", "g.py")],
    "sed -i '' -e 's/a/b/' f.py": [("change", "f.py")],
    "sed -n '1,5p' f.py": [("read", "f.py")],
    "head -n 5 a.py; tail -c 10 b.py": [("read", "a.py"), ("read", "b.py")],
    "git checkout -- a.py": [("change", "a.py")],
    "git checkout main": [],
    "rm $FILE *.pyc `cat list` ~/x": [("delete", "~/x")],
    "echo 'rm -rf /' # rm x": [],
    "grep -rn 'a > b' src": [],
    "if [ -f a ]; then rm a; fi": [("delete", "a")],
    "": [],
    "cat <<EOF > a.txt\nunfinished": [("write", "a.txt")],
}


@pytest.mark.parametrize(("command", "expected"), EFFECTS.items())
def test_files_that_a_command_clearly_touches(command: str, expected: list[tuple[str, str]]) -> None:
    assert [(one.kind, one.path) for one in read_shell(command).effects] == expected


def test_what_a_here_document_writes_is_known() -> None:
    assert read_shell("cat > a.txt <<-'E'\n\tone\n\tE\nls").effects[0].written == "\tone\n"


def test_words_that_only_the_shell_knows_are_counted() -> None:
    assert read_shell('rm $FILE *.pyc "$(ls)" "a $b"').unclear == 4


def test_a_change_of_folder_holds_for_what_follows() -> None:
    reading = read_shell("cd /repo && cd src; rm a.py && cd - && cd ~")
    assert [(one.path, one.directory) for one in reading.effects] == [("a.py", "/repo/src")]
    assert reading.directory == "/repo/src"


def test_the_folder_before_a_command_follows_from_the_one_after_it() -> None:
    assert directory_before("cd shop && ls", "/workspace/shop") == "/workspace"
    assert directory_before("ls", "/workspace") == "/workspace"


@pytest.mark.parametrize(
    ("command", "exit_code", "expected"),
    [
        ("grep x y", 1, True),
        ("cd a && rg x", 1, True),
        ("git diff --exit-code", 1, True),
        ("grep x y", 2, False),
        ("pytest", 1, False),
        ("git push", 1, False),
        ("", 1, False),
    ],
)
def test_exit_code_1_of_a_program_that_found_nothing_is_no_failure(
    command: str, exit_code: int, expected: bool
) -> None:
    assert found_nothing(command, exit_code) is expected


@pytest.mark.parametrize("piece", ["$(", '"', "'", "`a", "\\", "<<X\n", "> ", "$(a", "cd a;", "((", "#"])
def test_hostile_commands_take_time_in_proportion_to_their_length(piece: str) -> None:
    """Of 100,000 characters some tenths of a second; a quadratic reading would take minutes."""
    begun = time.thread_time()
    read_shell(piece * (100_000 // len(piece)))
    assert time.thread_time() - begun < 10
