"""How often an echo is missed, and a new fact taken for one:

python -m bench.memory.echo
"""

from __future__ import annotations

import sys
from collections import defaultdict

from bench.memory.echo.cases import cases
from memory.learning.echo import is_echo


def main() -> None:
    for name in ("chosen", "checked"):
        print(f"\n{name}.tsv")
        wrong: dict[tuple[bool, str], list[str]] = defaultdict(list)
        total: dict[tuple[bool, str], int] = defaultdict(int)
        for case in cases(name):
            total[case.is_echo, case.kind] += 1
            if is_echo(case.text, case.lines) is not case.is_echo:
                wrong[case.is_echo, case.kind].append(case.text)
        for key, count in total.items():
            print(f"  {'missed' if key[0] else 'false':6} {len(wrong[key]):3} of {count:3}  {key[1]}")
            if "--show" in sys.argv:
                print(*(f"      {text}" for text in wrong[key]), sep="\n")
        for echo, what in ((True, "missed echoes"), (False, "false echoes")):
            kinds = [key for key in total if key[0] is echo]
            bad, all_of_them = sum(len(wrong[key]) for key in kinds), sum(total[key] for key in kinds)
            print(f"  {what}: {bad} of {all_of_them} ({bad / all_of_them:.1%})")


if __name__ == "__main__":
    main()
