"""Profiles: what a file must hold, and that a profile is its bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import InvalidSetting
from gate.profile import PROFILES_DIR, Profile, load_profiles


def test_the_package_brings_three_profiles() -> None:
    assert {"default", "code", "marketing"} <= load_profiles().keys()


@pytest.mark.parametrize("name", ["default", "code", "marketing"])
def test_a_profile_is_its_canonical_bytes(name: str) -> None:
    profile = load_profiles()[name]
    again = Profile.from_bytes(profile.canonical_bytes())
    assert again == profile
    assert again.canonical_bytes() == profile.canonical_bytes()
    assert again.config_hash == profile.config_hash


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


def test_every_profile_can_be_reached_and_left_by_its_thresholds() -> None:
    for profile in load_profiles().values():
        assert profile.weights.dissimilarity + profile.weights.missing_terms >= profile.thresholds.full_loop
        assert 0 < profile.thresholds.search <= profile.thresholds.full_loop


def test_every_profile_has_intents_of_both_sorts() -> None:
    for profile in load_profiles().values():
        assert {intent.time_bound for intent in profile.intents.values()} == {True, False}


def test_a_folder_adds_a_profile_and_replaces_one_by_name(tmp_path: Path) -> None:
    (tmp_path / "legal.v1.toml").write_text('extends = "default.v1"\nname = "legal"\nversion = 1\n')
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


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="profiles_dir"):
        load_profiles(tmp_path / "none")


def test_bytes_that_are_no_profile_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="profile"):
        Profile.from_bytes(b'{"name": "x"}')


def test_every_weight_has_its_source_beside_it() -> None:
    section = (PROFILES_DIR / "default.v1.toml").read_text().split("[weights]")[1].split("[", 1)[0]
    for line in filter(None, map(str.strip, section.splitlines())):
        assert "#" in line, line
