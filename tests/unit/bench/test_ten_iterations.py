"""The bench of ten iterations reads its command line before it runs anything."""

from __future__ import annotations

import pytest

from bench.memory import ten_iterations


@pytest.mark.parametrize(("option", "code"), [("--help", 0), ("--hepl", 2)])
def test_help_and_a_misspelt_option_run_nothing(
    option: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ten_iterations", option])
    with pytest.raises(SystemExit) as ended:
        ten_iterations.main()
    printed = capsys.readouterr()
    assert ended.value.code == code
    assert "=== after iteration" not in printed.out
    assert "python -m bench.memory.ten_iterations" in printed.out + printed.err
