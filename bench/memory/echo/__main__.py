"""How often an echo is missed, and a new fact taken for one:

python -m bench.memory.echo
"""

from __future__ import annotations

import sys
from collections import defaultdict

from bench.memory.duplicates import own_sets
from bench.memory.echo.cases import cases, printed
from bench.memory.pairs.pair import Pair
from sluice.memory.learning.echo import is_echo


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
    print(
        "\nthe pairs of bench.memory.duplicates, one printed and the other said; natural.tsv was not looked at before"
    )
    for name, pairs in own_sets().items():
        for label in ("paraphrase", "opposite"):
            count, echoes = count_echoes([pair for pair in pairs if pair.label == label])
            print(f"  {name}: {echoes} of {count} {label}s are taken for echoes ({echoes / count:.1%})")


def count_echoes(pairs: list[Pair]) -> tuple[int, int]:
    """How many directions there are, and in how many one text is taken for an echo of the other."""
    directions = [both for pair in pairs for both in ((pair.one, pair.other), (pair.other, pair.one))]
    return len(directions), sum(is_echo(one, (printed(other, 3),)) for one, other in directions)


if __name__ == "__main__":
    main()
