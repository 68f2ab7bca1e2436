"""Self-defence in a simulated quarter, as a plot, and in many: how soon it acts, how soon it heals, how often in vain.

    python -m bench.defence [--quarters 200] [--quiet 1000] [--write docs/figures/self-defence.svg]

The seeds are fixed. Ends with 1 where the plotted quarter does not step back within two windows of the change, or does
not come forward again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.defence.plot import DEFENDED, UNDEFENDED, Line, Panel, draw_plot
from bench.defence.quarter import BEGAN, DAY, DAYS, WORLD, Told, play, trips_of_quiet_quarters
from sluice.evaluation.defence import FLOOR
from sluice.evaluation.evaluator import summarise_windows

SEED = 17
QUIET = (0.70, 0.72, 0.75, 0.80)


def main() -> int:
    """Play, print, write the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quarters", type=int, default=200)
    parser.add_argument("--quiet", type=int, default=1_000)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    defended, undefended = play(SEED), play(SEED, defended=False)
    for day, name, change, windows in defended.changes:
        print(f"day {day:.1f}: {name} {change}, {windows} windows after the change")
    for name, told in (("with", defended), ("without", undefended)):
        print(f"{name} self-defence, by era: {', '.join(_era_figures(told))}")
    if arguments.write:
        arguments.write.parent.mkdir(parents=True, exist_ok=True)
        arguments.write.write_text(_plot(defended, undefended), encoding="utf-8")
    _print_many(arguments.quarters)
    for satisfaction in QUIET:
        tripped = trips_of_quiet_quarters(satisfaction, arguments.quiet, SEED)
        print(f"quiet quarters at a true satisfaction of {satisfaction:.2f}: {tripped} of {arguments.quiet} trip")
    [*kinds] = (change for _, _, change, _ in defended.changes)
    return 0 if kinds == ["trip", "heal"] and defended.changes[0][3] <= 3 else 1


def _print_many(quarters: int) -> None:
    """Delays over many quarters. The window in which the world changes holds runs of both worlds; it is told apart."""
    tripped, healed, others = [], [], 0
    for seed in range(quarters):
        changes = play(seed).changes
        trips = [(day, windows) for day, name, change, windows in changes if (name, change) == ("satisfaction", "trip")]
        in_time = [(day, windows) for day, windows in trips if WORLD[1].from_day <= day < WORLD[2].from_day]
        others += len([one for one in changes if one[2] == "trip"]) - min(1, len(in_time))
        heals = [day for day, _, change, _ in changes if change == "heal" and day >= WORLD[2].from_day]
        tripped += in_time[:1]
        healed += [day - WORLD[2].from_day for day in heals[:1]]
    within = sum(windows <= 3 for _, windows in tripped)
    days = [day - WORLD[1].from_day for day, _ in tripped]
    print(
        f"{quarters} quarters: {len(tripped)} step back, {within} of them with the second whole window after the change"
        f" or before; days until then: median {median(days):.1f}, longest {max(days):.1f}"
    )
    print(
        f"{len(healed)} come forward again within the quarter; days until then: median {median(healed):.1f},"
        f" longest {max(healed):.1f}; trips beside these: {others}"
    )


def _era_figures(told: Told) -> Sequence[str]:
    ends = [*(era.from_day for era in WORLD[1:]), float(DAYS)]
    found = []
    for era, end in zip(WORLD, ends, strict=True):
        runs = [run for run in told.runs if era.from_day <= (run.decided_at.timestamp() - BEGAN) / DAY < end]
        judged = [run.satisfaction for run in runs if run.satisfaction is not None]
        found.append(f"{sum(judged) / len(judged):.3f} at {sum(run.usd for run in runs):.2f} USD")
    return found


def _plot(defended: Told, undefended: Told) -> str:
    satisfaction, cost = [], []
    for name, colour, told in (
        ("without self-defence", UNDEFENDED, undefended),
        ("with self-defence", DEFENDED, defended),
    ):
        windows = [window for window in told.evaluator.windows("default") if window.is_closed]
        figures = [((window.began_at - BEGAN) / DAY, summarise_windows([window])) for window in windows]
        rates = [(day, one.satisfaction.estimate) for day, one in figures if one.satisfaction]
        costs = [(day, one.usd.estimate * 1_000) for day, one in figures if one.usd]
        satisfaction.append(Line(name, colour, rates))
        cost.append(Line(name, colour, costs))
    trips = [day for day, _, change, _ in defended.changes if change == "trip"]
    heals = [day for day, _, change, _ in defended.changes if change == "heal"]
    stepped_back = list(zip(trips, [*heals, float(DAYS)], strict=False))
    panels = (
        Panel("satisfaction of judged runs, by window", 0.4, 1.0, (0.4, 0.6, 0.8, 1.0), satisfaction, FLOOR),
        Panel("USD per 1,000 runs", 0.0, 8.0, (0, 2, 4, 6, 8), cost),
    )
    return draw_plot(panels, DAYS, [era.from_day for era in WORLD[1:]], stepped_back)


if __name__ == "__main__":
    raise SystemExit(main())
