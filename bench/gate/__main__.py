"""Fits the gate's numbers on public questions, and measures the profile that comes with the package.

    python -m bench.gate DATA_DIR [--work DIR] [--profile default]

Two things are learnt, both by logistic regression with a ridge (a handful of features each): whether the answer to a
question changes (`bench.gate.time`), and whether the corpus holds the answer (`bench.gate.coverage`). The heads of talk
and change are fitted by `bench.gate.heads`, and only measured here.

What is printed as "fitted" is for a person to round and write into a profile; the measures below it are
of the profile as it stands. Embeddings are kept in the work directory: the first run takes minutes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.gate.coverage import tune_coverage
from bench.gate.languages import measure_languages
from bench.gate.talk import report_talk
from bench.gate.time import tune_time
from sluice.gate.profile import PROFILES_DIR, Profile, load_profile, load_profiles
from sluice.ingest.embed.cache import CachedEmbedder, EmbeddingCache
from sluice.ingest.embed.minilm import MiniLM
from tests.support.repository import MODELS


def main() -> None:
    """Fit, then measure, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--work", type=Path, default=Path("sluice-data") / "gate-tuning")
    parser.add_argument("--profile", default="default")
    options = parser.parse_args()
    profile = load_profiles()[options.profile]
    options.work.mkdir(parents=True, exist_ok=True)
    cache = EmbeddingCache(options.work / "embeddings.sqlite", 2_000_000)
    embedder = CachedEmbedder(MiniLM(MODELS), cache)
    print(f"profile {profile.name} version {profile.version}, {profile.config_hash[:12]}")
    report_talk(options.data_dir, profile, embedder)
    versions = [*earlier_versions(profile), profile]
    tune_time(options.data_dir / "gate", versions, embedder)
    measure_languages(versions, embedder)
    tune_coverage(options.data_dir, versions, embedder)
    cache.close()


def earlier_versions(profile: Profile) -> list[Profile]:
    """The versions of the profile that came with the package before."""
    files = {path.stem: path for path in sorted(PROFILES_DIR.glob("*.toml"))}
    stems = [f"{profile.name}.v{version}" for version in range(1, profile.version)]
    return [load_profile(files[stem], files) for stem in stems if stem in files]


if __name__ == "__main__":
    main()
