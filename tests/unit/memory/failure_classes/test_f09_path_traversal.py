"""F9: path traversal. Whatever way an agent's output names a file, the record's path is relative and inside the project."""

from __future__ import annotations

import json

import pytest

from sluice.contracts.memory.names import relative_path
from sluice.memory.extraction.paths import ProjectPaths
from tests.support.memory.agent_streams import extracted

INSIDE = [
    ("/home/dev/shop", "/home/dev/shop/src/a.py", None, "src/a.py"),
    ("/home/dev/shop", "/home/dev/shop/src/../src/./a.py", None, "src/a.py"),
    ("/home/dev/shop", "src/a.py", None, "src/a.py"),
    ("/home/dev/shop", "../a.py", "/home/dev/shop/src", "a.py"),
    ("/home/dev/shop/", "a.py", "/home/dev/shop/src/", "src/a.py"),
    ("/repo__name", "/repo__name/src/a.py", None, "src/a.py"),
    ("C:\\proj", "c:\\Proj\\src\\a.py", None, "src/a.py"),
    ("C:\\proj", "src\\a.py", None, "src/a.py"),
    ("C:\\proj", "/c/proj/src/a.py", None, "src/a.py"),
    ("//server/share/proj", "\\\\server\\share\\proj\\a.py", None, "a.py"),
    (None, "src/a.py", None, "src/a.py"),
]
OUTSIDE = [
    ("/home/dev/shop", "/etc/passwd", None),
    ("/home/dev/shop", "/home/dev/shop2/a.py", None),
    ("/home/dev/shop", "/home/dev/shop/../other/a.py", None),
    ("/home/dev/shop", "../../etc/passwd", None),
    ("/home/dev/shop", "..\\..\\etc\\passwd", None),
    ("/home/dev/shop", "a.py", "/home/dev"),
    ("/home/dev/shop", "~/.ssh/id_rsa", None),
    ("/home/dev/shop", "~root/.ssh/id_rsa", None),
    ("/home/dev/shop", "C:\\Windows\\system32", None),
    ("/home/dev/shop", "c:a.py", None),
    ("/home/dev/shop", "a\x00.py", None),
    ("/home/dev/shop", "a\n.py", None),
    ("/home/dev/shop", "", None),
    ("/home/dev/shop", ".", None),
    ("/home/dev/shop", "/home/dev/shop", None),
    ("/home/dev/shop", "x/" * 600 + "a.py", None),
    ("C:\\proj", "D:\\proj\\a.py", None),
    ("C:\\proj", "\\\\?\\C:\\Windows\\a", None),
    ("/", "~", None),
    (None, "/etc/passwd", None),
    (None, "../a.py", None),
]


@pytest.mark.parametrize(("root", "path", "directory", "expected"), INSIDE)
def test_f09_a_path_inside_is_kept_relative(root: str | None, path: str, directory: str | None, expected: str) -> None:
    found = ProjectPaths.of(root).find(path, directory)
    assert found == expected
    assert relative_path(found) == found


@pytest.mark.parametrize(("root", "path", "directory"), OUTSIDE)
def test_f09_a_path_outside_is_counted_and_not_kept(root: str | None, path: str, directory: str | None) -> None:
    paths = ProjectPaths.of(root)
    assert paths.relative(path, directory) is None
    assert paths.not_kept == {"path_outside": 1}


def test_f09_a_stream_that_writes_outside_keeps_no_such_path_in_any_field() -> None:
    """By tools and by shell, absolutely and by `..`, with a folder changed to before."""
    calls = [
        ("Write", {"file_path": "/home/dev/shop/../secret.txt", "content": "x"}),
        ("Write", {"file_path": "../../secret.txt", "content": "x"}),
        ("Edit", {"file_path": "~/secret.txt", "old_string": "a", "new_string": "b"}),
        ("Bash", {"command": "cd .. && echo x > secret.txt && rm shop/../secret.txt"}),
        ("Bash", {"command": "echo x > $HOME/secret.txt"}),
    ]
    events: list[object] = [{"type": "system", "subtype": "init", "cwd": "/home/dev/shop"}]
    for number, (name, given) in enumerate(calls):
        use = {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}
        events.append({"type": "assistant", "message": {"content": [use]}})
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": ""}
        events.append({"type": "user", "message": {"content": [result]}})
    result = extracted("\n".join(json.dumps(event) for event in events))
    assert result.files_touched == ()
    assert result.not_kept == {"path_outside": 5, "path_unclear": 1}


def test_f09_relative_paths_begin_where_the_caller_says_if_the_output_does_not() -> None:
    use = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "cd src && touch a.py ../../b.py"}}
    events = [
        {"type": "assistant", "message": {"content": [use]}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": ""}]}},
    ]
    result = extracted(events, working_directory="/home/dev/shop/web")
    assert [one.path for one in result.files_touched] == ["web/src/a.py", "b.py"]
    assert result.not_kept == {}
    assert extracted(events).not_kept == {"path_outside": 1}


@pytest.mark.parametrize("cwd", ["/home/dev/shop/web", "/home/dev"])
def test_f09_the_project_is_the_root_where_the_agent_worked_in_a_folder_of_it_or_above_it(cwd: str) -> None:
    path = "/home/dev/shop/web/a.py"
    use = {"type": "tool_use", "id": "t", "name": "Write", "input": {"file_path": path, "content": "x"}}
    events = [
        {"type": "system", "subtype": "init", "cwd": cwd},
        {"type": "assistant", "message": {"content": [use]}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": ""}]}},
    ]
    result = extracted("\n".join(json.dumps(event) for event in events), project="/home/dev/shop")
    assert [one.path for one in result.files_touched] == ["web/a.py"]
