"""Simulates canaries of models that are as good as the gate, worse or better, and prints how they ended.

    python -m bench.canary [--canaries 1000] [--seed 17]

A minute or two. The figures stand in README.md beside it.
"""

from __future__ import annotations

import argparse

from bench.canary.simulate import STAGES, Canaries, World, simulate
from sluice.evaluation.rollout.canary import expected_runs

WORLDS = (
    World(),
    World(loss=0.05),
    World(loss=0.10),
    World(loss=0.20),
    World(loss=-0.05),
    World(coverage=0.2, look_every=1_000),
    World(loss=0.10, coverage=0.2, look_every=1_000),
    World(loss=0.10, satisfaction=0.6),
    World(loss=0.10, satisfaction=0.95),
)


def main() -> None:
    """Simulate every world, and print a row of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canaries", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=17)
    options = parser.parse_args()
    heads = "satisfaction|canary|judged|stages, at most|stopped|promoted|inconclusive|stopped after|promoted after"
    print(f"| {heads.replace('|', ' | ')} |")
    print("|--:|--:|--:|---|--:|--:|--:|--:|--:|")
    for world in WORLDS:
        print(_row(simulate(world, options.canaries, options.seed)), flush=True)


def _row(canaries: Canaries) -> str:
    world, of = canaries.world, canaries.canaries
    lengths = expected_runs(STAGES, satisfaction=world.satisfaction, coverage=world.coverage)
    shares = (f"{canaries.ends[end] / of:.1%}" for end in ("stopped", "promoted", "inconclusive"))
    medians = (f"{runs:,.0f}" if runs else "–" for runs in (canaries.stopped_after, canaries.promoted_after))
    cells = (
        f"{world.satisfaction:.2f}",
        f"{-world.loss:+.0%}" if world.loss else "alike",
        f"{world.coverage:.0%}",
        " + ".join(f"{length:,}" for length in lengths),
        *shares,
        *medians,
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
