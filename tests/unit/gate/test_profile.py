"""Profiles: what a file must hold, and that a profile is its bytes."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidSetting
from sluice.contracts.retrieval import Strategy
from sluice.gate.profile import (
    PROFILES_DIR,
    Profile,
    RetrievalSettings,
    load_former_profiles,
    load_profile,
    load_profiles,
)
from sluice.ingest.search.port import SearchFilters


def test_the_package_brings_three_profiles() -> None:
    assert {"default", "code", "marketing"} <= load_profiles().keys()


@pytest.mark.parametrize("name", ["default", "code", "marketing"])
def test_a_profile_is_its_canonical_bytes(name: str) -> None:
    profile = load_profiles()[name]
    again = Profile.from_bytes(profile.canonical_bytes())
    assert again == profile
    assert again.canonical_bytes() == profile.canonical_bytes()
    assert again.config_hash == profile.config_hash


@pytest.mark.parametrize(
    ("stem", "config_hash"),
    [
        ("default.v1", "24fb2ccc3e28c7a9992f5eb0aece09a9bed5f3cd7e8192c797fdba7b6840f21b"),
        ("code.v1", "3fe9c9b244679ac75cd65e68de63c219be20317a078dd9811a10cd3aff2fc335"),
        ("marketing.v1", "02dd8c4bb4347b4ed608db50fb36f87d2d1b0c3a4d8270e66e71dfbcb4e4c7e5"),
    ],
)
def test_a_published_version_is_never_changed(stem: str, config_hash: str) -> None:
    """Decisions are recorded with these hashes."""
    files = {path.stem: path for path in PROFILES_DIR.glob("*.toml")}
    profile = load_profile(files[stem], files)
    assert profile.config_hash == config_hash
    for later in (b"verticals", b"intent_weights", b'"threshold"'):
        assert later not in profile.canonical_bytes()


def test_the_highest_version_decides() -> None:
    assert {name: load_profiles()[name].version for name in ("default", "code", "marketing")} == {
        "default": 4,
        "code": 7,
        "marketing": 6,
    }


def test_code_searches_by_the_graph_from_version_5_and_decides_as_version_4_did() -> None:
    files = {path.stem: path for path in PROFILES_DIR.glob("*.toml")}
    before, now = (load_profile(files[stem], files) for stem in ("code.v4", "code.v5"))
    assert now.retrieval == RetrievalSettings(strategy=Strategy.HYBRID_GRAPH)
    assert now.model_copy(update={"version": 4, "retrieval": None}) == before
    assert b"retrieval" not in before.canonical_bytes()
    assert Profile.from_bytes(now.canonical_bytes()) == now


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('template = "{colour}"', r"no entity \{colour\}; there are query, year, cve"),
        ('template = "{query}"\nsites = ["https://docs.python.org/"]', "sites"),
        ('template = "{query}"\nsites = ["a.example, b.example"]', "sites"),
        ('template = ""', "template"),
        ('template = "{query}"\nvertical = "images"', "vertical"),
    ],
)
def test_a_vertical_query_that_cannot_be_asked_is_refused_by_field(tmp_path: Path, lines: str, problem: str) -> None:
    text = f'extends = "default.v1"\nname = "x"\nversion = 1\n[[search.verticals]]\n{lines}\n'
    (tmp_path / "x.v1.toml").write_text(text)
    with pytest.raises(InvalidSetting, match=problem):
        load_profiles(tmp_path)


def test_every_site_of_a_profile_is_one_that_a_search_can_be_held_to() -> None:
    for profile in load_profiles().values():
        for asked in profile.search.verticals:
            read = SearchFilters.read({"site": ",".join(asked.sites)}, date(2026, 1, 1))
            assert read.sites == asked.sites


def test_every_profile_has_its_own_hash() -> None:
    hashes = [profile.config_hash for profile in load_profiles().values()]
    assert len(set(hashes)) == len(hashes)


def test_one_changed_weight_changes_the_hash() -> None:
    profile = load_profiles()["default"]
    weights = profile.weights.model_copy(update={"staleness": 0.91})
    assert profile.model_copy(update={"weights": weights}).canonical_bytes() != profile.canonical_bytes()


def test_a_file_that_extends_another_states_only_what_differs() -> None:
    profiles = load_profiles()
    assert profiles["marketing"].weights.staleness > profiles["default"].weights.staleness
    assert profiles["marketing"].weights.dissimilarity == profiles["default"].weights.dissimilarity
    assert profiles["code"].intents["factual"] == profiles["default"].intents["factual"]


def test_a_file_may_extend_several_of_which_the_later_stands_over_the_earlier(tmp_path: Path) -> None:
    """What both extend stands below them, so it does not undo what the first of them states."""
    (tmp_path / "a.v1.toml").write_text('extends = "default.v1"\nname = "a"\nversion = 1\n[weights]\nstaleness = 0.7\n')
    (tmp_path / "b.v1.toml").write_text(
        'extends = "default.v1"\nname = "b"\nversion = 1\n[weights]\nnewer_year = 0.3\n'
    )
    (tmp_path / "c.v1.toml").write_text('extends = ["a.v1", "b.v1"]\nname = "c"\nversion = 1\n')
    weights = load_profiles(tmp_path)["c"].weights
    assert (weights.staleness, weights.newer_year) == (0.7, 0.3)


def test_every_profile_can_be_reached_and_left_by_its_thresholds() -> None:
    for profile in load_profiles().values():
        weights = profile.weights
        assert weights.unanswered >= profile.thresholds.full_loop
        assert 0 < profile.thresholds.search <= profile.thresholds.full_loop


def test_every_profile_has_intents_of_both_sorts() -> None:
    for profile in load_profiles().values():
        assert {intent.time_bound for intent in profile.intents.values()} == {True, False}


def test_a_folder_adds_a_profile_and_replaces_one_by_name(tmp_path: Path) -> None:
    (tmp_path / "legal.v1.toml").write_text('extends = "default.v3"\nname = "legal"\nversion = 1\n')
    (tmp_path / "code.v2.toml").write_text('extends = "code.v1"\nversion = 2\n[thresholds]\nsearch = 0.5\n')
    profiles = load_profiles(tmp_path)
    assert profiles["legal"].weights == profiles["default"].weights
    assert (profiles["code"].version, profiles["code"].thresholds.search) == (2, 0.5)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('name = "x', "x.v1.toml"),
        ('name = "x"\nversion = 1\n', "x.v1.toml: weights"),
        ('extends = "nothing.v1"\nname = "x"\nversion = 1\n', "x.v1.toml: extends"),
        ('extends = "x.v1"\nname = "x"\nversion = 1\n', "x.v1.toml: extends"),
        ('extends = ["default.v1", 1]\nname = "x"\nversion = 1\n', "x.v1.toml: extends"),
        ('extends = 1\nname = "x"\nversion = 1\n', "x.v1.toml: extends"),
        ('extends = "default.v1"\nname = "y"\nversion = 1\n', "x.v1.toml: name"),
        (
            'extends = "default.v1"\nname = "x"\nversion = 1\n[weights]\nmissing_terms = -1\n',
            "x.v1.toml: weights.missing_terms",
        ),
        (
            'extends = "default.v1"\nname = "x"\nversion = 1\n[weights]\nmissing_terms = nan\n',
            "x.v1.toml: weights.missing_terms",
        ),
        ('extends = "default.v1"\nname = "x"\nversion = 1\n[weights]\nluck = 1\n', "x.v1.toml: weights.luck"),
        ('extends = "default.v1"\nname = "x"\nversion = 1\n[thresholds]\nsearch = 0.9\n', "x.v1.toml: thresholds"),
    ],
)
def test_a_wrong_file_is_refused_by_file_and_field(tmp_path: Path, text: str, field: str) -> None:
    (tmp_path / "x.v1.toml").write_text(text)
    with pytest.raises(InvalidSetting) as refused:
        load_profiles(tmp_path)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("[time.intent_weights]\nluck = 1.0", "no intent 'luck'; one of chit_chat"),
        ("[time.intent_weights]\nnews = nan", "finite"),
        ("[time]\nthreshold = 1.0", "less than 1"),
    ],
)
def test_a_weight_of_an_unknown_intent_and_a_threshold_that_is_no_probability_are_refused(
    tmp_path: Path, lines: str, problem: str
) -> None:
    (tmp_path / "x.v1.toml").write_text(f'extends = "default.v2"\nname = "x"\nversion = 1\n{lines}\n')
    with pytest.raises(InvalidSetting, match=problem):
        load_profiles(tmp_path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="profiles_dir"):
        load_profiles(tmp_path / "none")


def test_bytes_that_are_no_profile_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="profile"):
        Profile.from_bytes(b'{"name": "x"}')


@pytest.mark.parametrize("stem", ["default.v1", "default.v2", "default.v3"])
def test_every_weight_has_its_source_beside_it(stem: str) -> None:
    section = (PROFILES_DIR / f"{stem}.toml").read_text().split("[weights]")[1].split("[", 1)[0]
    for line in filter(None, map(str.strip, section.splitlines())):
        assert "#" in line, line


def test_the_version_before_stands_below_the_deciding_one_wherever_it_is(tmp_path: Path) -> None:
    deciding, former = load_profiles(), load_former_profiles()
    assert {name: former[name].version for name in former} == {
        name: profile.version - 1 for name, profile in deciding.items()
    }
    for name in ("default.v90", "alone.v1"):
        stem, version = name.split(".v")
        (tmp_path / f"{name}.toml").write_text(f'extends = "default.v1"\nname = "{stem}"\nversion = {version}\n')
    own = load_former_profiles(tmp_path)
    assert own["default"] == deciding["default"], "an owner's own version falls back to the package's"
    assert "alone" not in own
