"""The decision: what leads to which plan, what lowers it, and that it can be computed again bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.errors import Conflict
from sluice.contracts.gate import (
    BudgetState,
    CoverageProbed,
    GateDecided,
    GateRequested,
    Message,
    PolicyState,
    ProbeSentence,
)
from sluice.contracts.learning.control import Control, Judgement, ModelUse
from sluice.contracts.plan import Plan
from sluice.gate.decide import HEURISTIC, decide, deciding_model, depends_on_sentences, explain, may_reconsider
from sluice.gate.profile import PROFILES_DIR, Profile, load_former_profiles, load_profile, load_profiles
from tests.support.gate_model import small_model
from tests.support.repository import GOLDEN, IMPORT_PATH
from tests.unit.gate.samples import NOW, OPEN, RICH, TIMELESS, URGENT, asked, hit, probed, terms

PROFILES = load_profiles()
YEAR = timedelta(days=365)
CLOSED = PolicyState(search_allowed=False, crawl_allowed=False)
ANSWER = Message(role="assistant", content="The suspension bridge was opened to traffic on 27 May 1937.")
SEED = "https://example.org/bridges"

every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES.keys())


def decided(
    request: GateRequested | None = None,
    probe: CoverageProbed | None = None,
    policy: PolicyState = OPEN,
    budget: BudgetState = RICH,
    profile: Profile = PROFILES["default"],
) -> GateDecided:
    return decide(request or asked(), probe or probed((hit(),)), profile, policy, budget, NOW)


@every_profile
def test_an_empty_corpus_asks_for_the_full_loop(profile: Profile) -> None:
    assert decided(probe=probed(), profile=profile).plan is Plan.FULL_LOOP


@every_profile
@pytest.mark.parametrize("similarity", [0.45, 0.55, 0.65, 0.75])
def test_a_corpus_just_filled_with_pages_on_the_question_is_enough(profile: Profile, similarity: float) -> None:
    assert decided(probe=probed((hit(similarity), hit(0.3, document="d2"))), profile=profile).plan is Plan.RETRIEVE


@every_profile
def test_a_time_sensitive_question_is_answered_from_a_corpus_just_filled(profile: Profile) -> None:
    probe = probed((hit(0.55),), intent_similarity=URGENT)
    assert decided(asked("who is the current governor"), probe, profile=profile).plan is Plan.RETRIEVE


@every_profile
def test_a_corpus_on_another_topic_asks_for_the_full_loop(profile: Profile) -> None:
    assert decided(probe=probed((hit(0.3),), terms=terms(covered=0, missing=3)), profile=profile).plan is Plan.FULL_LOOP


def test_a_corpus_near_the_topic_asks_for_a_search() -> None:
    assert decided(probe=probed((hit(0.45),), terms=terms(covered=1, missing=1))).plan is Plan.SEARCH


@every_profile
def test_a_session_that_holds_the_answer_is_enough(profile: Profile) -> None:
    probe = probed(session_similarity=(0.72,), session_term_coverage=1.0)
    assert decided(asked(session=(ANSWER,)), probe, profile=profile).plan is Plan.SKIP


def test_a_session_that_speaks_of_something_else_changes_nothing() -> None:
    probe = probed(session_similarity=(0.1,), session_term_coverage=0.2)
    assert decided(asked(session=(ANSWER,)), probe).plan is Plan.FULL_LOOP


def test_a_session_does_not_answer_what_changes() -> None:
    probe = probed((hit(),), session_similarity=(0.9,), session_term_coverage=1.0, intent_similarity=URGENT)
    assert decided(asked("who is the current governor", session=(ANSWER,)), probe).plan is Plan.RETRIEVE


@every_profile
def test_a_time_sensitive_question_with_stale_hits_goes_outside(profile: Profile) -> None:
    probe = probed((hit(0.7, age=2 * YEAR),), intent_similarity=URGENT)
    assert decided(asked("who is the current governor"), probe, profile=profile).plan in (Plan.SEARCH, Plan.FULL_LOOP)


def test_one_half_life_is_stale_enough_to_search() -> None:
    probe = probed((hit(0.6, age=timedelta(days=90)),), intent_similarity=URGENT)
    assert decided(asked("who is the current governor"), probe).plan is Plan.SEARCH


@every_profile
def test_a_timeless_question_is_never_sent_outside_by_age(profile: Profile) -> None:
    probe = probed((hit(0.6, age=30 * YEAR),))
    assert decided(asked("who wrote the first opera"), probe, profile=profile).plan is Plan.RETRIEVE


def test_a_year_newer_than_the_hits_goes_outside() -> None:
    probe = probed((hit(0.6, age=3 * YEAR),))
    assert decided(asked("results of the regatta of 2025"), probe).plan is Plan.SEARCH


@every_profile
def test_small_talk_goes_nowhere_even_with_an_empty_corpus(profile: Profile) -> None:
    probe = probed(intent_similarity={"chit_chat": 0.95}, terms=())
    assert decided(asked("thanks a lot"), probe, profile=profile).plan is Plan.SKIP


def test_a_question_about_the_assistant_may_have_its_answer_in_the_corpus_and_nowhere_else() -> None:
    assert decided(asked("who are you?"), probed(terms=())).plan is Plan.RETRIEVE


@every_profile
def test_what_the_probe_tells_of_talk_decides(profile: Profile) -> None:
    heads = {"talk": 0.97, "assistant": 0.1}
    request, probe = asked("brr brr"), probed(terms=(), heads=heads)
    assert decided(request, probe, profile=profile).plan is Plan.SKIP
    about = probe.model_copy(update={"heads": heads | {"assistant": 0.9}})
    assert decided(request, about, profile=profile).plan is Plan.RETRIEVE
    doubtful = probe.model_copy(update={"heads": heads | {"talk": 0.6}})
    assert decided(request, doubtful, profile=profile).plan is Plan.FULL_LOOP


@pytest.mark.parametrize("kind", ["small talk", "assistant"])
def test_a_decision_by_lists_of_words_is_explained_by_what_they_found(kind: str) -> None:
    profile = load_profile(PROFILES_DIR / "default.v3.toml", {path.stem: path for path in PROFILES_DIR.glob("*.toml")})
    probe = probed(terms=(), heads={"talk": 0.97, "assistant": float(kind == "assistant")})
    made = decided(asked("brr brr"), probe, profile=profile)
    assert made.plan is (Plan.RETRIEVE if kind == "assistant" else Plan.SKIP)
    as_lists = {one.feature: one for one in made.contributions}
    as_lists["self_contained"] = as_lists["self_contained"].model_copy(update={"raw": f"talk: {kind}"})
    recorded = made.model_copy(update={"contributions": tuple(as_lists.values())})
    assert explain(asked("brr brr"), probed(terms=()), recorded, profile) == recorded


def test_what_lists_of_words_did_not_find_stays_a_question() -> None:
    profile = load_profile(PROFILES_DIR / "default.v3.toml", {path.stem: path for path in PROFILES_DIR.glob("*.toml")})
    probe = probed(terms=(), heads={"talk": 0.0, "assistant": 0.0})
    recorded = decided(asked("brr brr"), probe, profile=profile)
    talk = probe.model_copy(update={"heads": probe.heads | {"talk": 0.99}})
    assert explain(asked("brr brr"), talk, recorded, profile) == recorded


def test_talk_with_pages_to_read_means_these() -> None:
    found = decided(asked("Summarise this", seeds=("https://a.example/",)), probed())
    assert found.plan is Plan.FULL_LOOP


@pytest.mark.parametrize("plan", list(Plan))
def test_a_requested_plan_takes_the_place_of_the_scored_one(plan: Plan) -> None:
    found = decided(asked(plan=plan))
    assert (found.plan, found.requested_plan, found.scored_plan) == (plan, plan, Plan.RETRIEVE)


@every_profile
def test_a_requested_plan_is_no_way_round_a_veto(profile: Profile) -> None:
    found = decided(asked(plan=Plan.FULL_LOOP, seeds=(SEED,)), policy=CLOSED, profile=profile)
    assert found.plan is Plan.RETRIEVE
    assert (found.search_seeds, found.crawl_seeds) == ((), ())
    assert [(v.name, v.lowered_from, v.lowered_to) for v in found.vetoes] == [
        ("crawl_policy", Plan.FULL_LOOP, Plan.SEARCH),
        ("search_policy", Plan.SEARCH, Plan.RETRIEVE),
    ]
    assert [v.lifted_by for v in found.vetoes] == [
        "crawl.enabled = true in sluice.toml",
        "search.enabled = true in sluice.toml",
    ]


def test_policy_and_budget_never_change_the_score() -> None:
    poor = BudgetState(run_usd_left=0, day_usd_left=0, run_pages_left=0, day_pages_left=0, search_usd_estimate=0.01)
    assert decided(policy=CLOSED, budget=poor).score == decided().score
    assert {c.weight for c in decided().contributions if c.feature in ("policy", "budget_left")} == {0.0}


def test_seeds_are_crawled_where_searching_is_denied() -> None:
    policy = PolicyState(search_allowed=False, crawl_allowed=True)
    found = decided(asked(seeds=(SEED,)), probed(), policy)
    assert (found.plan, found.search_seeds, found.crawl_seeds) == (Plan.FULL_LOOP, (), (SEED,))
    (veto,) = found.vetoes
    assert (veto.lowered_from, veto.lowered_to) == (Plan.FULL_LOOP, Plan.FULL_LOOP)
    assert "only the given seeds are crawled" in veto.why


def test_without_search_and_seeds_nothing_outside_can_begin() -> None:
    found = decided(probe=probed(), policy=PolicyState(search_allowed=False, crawl_allowed=True))
    assert (found.plan, found.vetoes[0].lifted_by) == (Plan.RETRIEVE, "search.enabled = true in sluice.toml")


def test_while_nothing_can_be_embedded_nothing_is_fetched_and_the_veto_says_so() -> None:
    down = probed().model_copy(update={"embedder_down": "the embedding model m is out of reach"})
    decision = decided(probe=down)
    assert (decision.scored_plan, decision.plan) == (Plan.FULL_LOOP, Plan.RETRIEVE)
    assert [veto.name for veto in decision.vetoes] == ["embedder_down"]
    assert decision.search_seeds == decision.crawl_seeds == ()


def test_without_crawling_the_search_remains() -> None:
    found = decided(probe=probed(), policy=PolicyState(search_allowed=True, crawl_allowed=False))
    assert (found.plan, found.search_seeds) == (Plan.SEARCH, (asked().query,))


def test_a_spent_budget_falls_back_to_retrieval() -> None:
    spent = RICH.model_copy(update={"day_usd_left": 0.001, "run_pages_left": 0})
    found = decided(probe=probed(), budget=spent)
    assert found.plan is Plan.RETRIEVE
    assert [veto.name for veto in found.vetoes] == ["run_pages", "day_usd"]


def test_no_more_is_searched_for_than_can_be_paid() -> None:
    code = PROFILES["code"]
    assert len(decided(probe=probed(), profile=code).search_seeds) == 3
    one_call = RICH.model_copy(update={"run_usd_left": 0.007})
    assert decided(probe=probed(), profile=code, budget=one_call).search_seeds == (asked().query,)


def test_an_unusable_seed_is_named_and_left_out() -> None:
    found = decided(asked(seeds=("file:///etc/passwd", SEED)), probed())
    assert found.crawl_seeds == (SEED,)
    assert [veto.name for veto in found.vetoes] == ["seed_refused"]


def test_contributions_add_up_to_the_score_and_each_tells_what_was_measured() -> None:
    found = decided()
    assert sum(c.contribution for c in found.contributions) == pytest.approx(found.score, abs=1e-6)
    assert all(c.raw for c in found.contributions)


@every_profile
def test_a_recorded_decision_is_computed_again_byte_for_byte(profile: Profile) -> None:
    request = asked("latest results of 2025", seeds=(SEED, "ftp://x"), limits={"max_pages": 3})
    probe = probed((hit(0.512345, age=YEAR), hit(0.4, document="d2")), terms=terms(2, 1), intent_similarity=URGENT)
    found = decided(request, probe, profile=profile)
    kept = Profile.from_bytes(profile.canonical_bytes())
    recorded = [
        kind.model_validate_json(value.model_dump_json())
        for kind, value in ((GateRequested, request), (CoverageProbed, probe), (GateDecided, found))
    ]
    again = explain(*recorded, kept)  # type: ignore[arg-type]
    assert again.model_dump_json() == found.model_dump_json()


def test_a_decision_is_not_explained_by_another_profile() -> None:
    with pytest.raises(Conflict):
        explain(asked(), probed((hit(),)), decided(), PROFILES["code"])


def test_every_process_decides_the_same_bytes() -> None:
    program = (
        "from tests.unit.gate.samples import *; from sluice.gate.decide import decide; from sluice.gate.profile import load_profiles;"
        "p = probed((hit(0.437), hit(0.311, document='d2')), terms=terms(2, 1), intent_similarity=URGENT);"
        "print([decide(asked('latest of 2025'), p, load_profiles()[n], OPEN, RICH, NOW).model_dump_json()"
        " for n in ('default', 'code', 'marketing')])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": IMPORT_PATH},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1234")
    }
    assert len(outputs) == 1


@every_profile
@given(
    similarities=st.lists(st.floats(-0.2, 1), min_size=1, max_size=8),
    ages=st.lists(st.integers(0, 4_000), min_size=8, max_size=8),
    covered=st.lists(st.booleans(), min_size=1, max_size=6),
    position=st.integers(0, 7),
    gain=st.floats(0, 1),
    query=st.sampled_from(["who is the current governor", "results of 2025", "when was the bridge opened"]),
)
def test_more_coverage_never_raises_the_score(profile, similarities, ages, covered, position, gain, query) -> None:
    def score(values: list[float], held: list[bool], extra: int = 0) -> float:
        hits = [hit(v, age=timedelta(days=ages[n]), document=f"d{n % 3}") for n, v in enumerate(values)]
        hits += [hit(gain, age=timedelta(days=ages[position]), document="new")] * extra
        found = tuple(terms(1, 0)[0].model_copy(update={"term": f"t{n}", "covered": c}) for n, c in enumerate(held))
        probe = probed(tuple(hits), terms=found, intent_similarity=URGENT)
        return decided(asked(query), probe, profile=profile).score

    before = score(similarities, covered)
    at = position % len(similarities)
    nearer = [min(1.0, v + gain) if n == at else v for n, v in enumerate(similarities)]
    assert score(nearer, covered) <= before
    assert score(similarities, covered, extra=1) <= before
    assert score(similarities, [True, *covered[1:]]) <= score(similarities, [False, *covered[1:]])


@every_profile
@given(
    similarity=st.floats(-0.2, 1),
    cosines=st.lists(st.floats(-0.2, 1), min_size=1, max_size=3),
    shares=st.lists(st.floats(0, 1), min_size=3, max_size=3),
    position=st.integers(0, 2),
    gain=st.floats(0, 1),
)
def test_a_sentence_that_is_nearer_or_holds_more_never_raises_the_score(
    profile, similarity, cosines, shares, position, gain
) -> None:
    at = position % len(cosines)

    def found(values: list[float], held: list[float]) -> GateDecided:
        pairs = zip(values, held, strict=False)
        sentences = [ProbeSentence(chunk_id="c", similarity=cosine, term_coverage=share) for cosine, share in pairs]
        return decided(probe=probed((hit(similarity),), sentences=tuple(sentences)), profile=profile)

    def raised(values: list[float]) -> list[float]:
        return [min(1.0, value + gain) if n == at else value for n, value in enumerate(values)]

    before = found(cosines, shares)
    for after in (found(raised(cosines), shares), found(cosines, raised(shares)), found([*cosines, gain], shares)):
        assert after.score <= before.score
        assert after.coverage_probability >= before.coverage_probability


def test_a_sentence_that_says_it_tells_covered_from_near() -> None:
    """Both passages are equally near and hold the question's words; in one of them a sentence holds them together."""
    answering = (ProbeSentence(chunk_id="c", similarity=0.72, term_coverage=1.0),)
    scattered = (ProbeSentence(chunk_id="c", similarity=0.38, term_coverage=0.3),)
    assert decided(probe=probed((hit(0.45),), sentences=answering)).plan is Plan.RETRIEVE
    assert decided(probe=probed((hit(0.45),), sentences=scattered)).plan in (Plan.SEARCH, Plan.FULL_LOOP)


@every_profile
@given(
    passage=st.floats(-0.2, 1),
    sentence=st.floats(-1, 1),
    share=st.floats(0, 1),
    age=st.timedeltas(timedelta(0), 3 * YEAR),
    similarity=st.sampled_from((TIMELESS, URGENT)),
    message=st.floats(0, 1),
)
def test_a_sentence_that_is_not_compared_would_not_have_changed_the_plan(
    profile, passage, sentence, share, age, similarity, message
) -> None:
    request = asked("who is the current governor", session=(ANSWER,))

    def found(cosine: float | None) -> CoverageProbed:
        sentences = (ProbeSentence(chunk_id="c", similarity=cosine, term_coverage=share),)
        session = {"session_similarity": (message,), "session_term_coverage": share}
        return probed((hit(passage, age=age),), sentences=sentences, intent_similarity=similarity, **session)

    if not depends_on_sentences(request, found(None), profile):
        plans = {decided(request, found(cosine), profile=profile).scored_plan for cosine in (None, sentence, 1.0)}
        assert len(plans) == 1


@pytest.mark.parametrize(
    ("passage", "share", "depends"),
    [
        (0.60, 1.0, False),  # 0.125 is below `search` without the sentence
        (0.16, 1.0, True),  # 0.49 with the passage alone, 0 with the nearest sentence
        (0.30, 0.3, True),  # 0.725, or 0.35
        (0.60, 0.0, True),  # 0.625 is above `full_loop`, 0.5 between both thresholds
        (0.76, 0.0, False),  # the passage is as near as counts
        (None, 0.0, True),  # no passage was compared
    ],
)
def test_sentences_are_compared_where_they_can_change_the_plan(
    passage: float | None, share: float, depends: bool
) -> None:
    sentences = (ProbeSentence(chunk_id="c", term_coverage=share),)
    files = {path.stem: path for path in PROFILES_DIR.glob("*.toml")}
    second = load_profile(files["default.v2"], files)
    assert depends_on_sentences(asked(), probed((hit(passage),), sentences=sentences), second) is depends


def test_without_sentences_or_a_weight_for_them_none_is_compared() -> None:
    files = {path.stem: path for path in PROFILES_DIR.glob("*.toml")}
    first = load_profile(files["default.v1"], files)
    far = probed((hit(0.3),), sentences=(ProbeSentence(chunk_id="c", term_coverage=0.3),))
    assert not depends_on_sentences(asked(), far, first)
    assert not depends_on_sentences(asked(), probed((hit(0.3),)), PROFILES["default"])


@every_profile
@pytest.mark.parametrize(
    ("answerable", "plan"),
    [(0.95, Plan.RETRIEVE), (0.5, Plan.RETRIEVE), (0.3, Plan.SEARCH), (0.1, Plan.FULL_LOOP), (0.0, Plan.FULL_LOOP)],
)
def test_the_probability_of_an_answer_decides_whatever_the_hits_look_like(
    profile: Profile, answerable: float, plan: Plan
) -> None:
    for near in (0.2, 0.9):
        found = decided(probe=probed((hit(near),), answerable=answerable), profile=profile)
        assert (found.plan, found.coverage_probability) == (plan, answerable)


@every_profile
@given(share=st.floats(0, 1), cosine=st.floats(-1, 1))
def test_a_probe_without_a_probability_is_decided_as_by_the_version_before(
    profile: Profile, share: float, cosine: float
) -> None:
    sentences = (ProbeSentence(chunk_id="c", similarity=cosine, term_coverage=share),)
    before = load_former_profiles()[profile.name]
    probe = probed((hit(0.3),), sentences=sentences)
    assert decided(probe=probe, profile=profile).plan is decided(probe=probe, profile=before).plan


REFUSED = "the answer would have abstained: 0.12 is below the floor"


@every_profile
@pytest.mark.parametrize(("answerable", "plan"), [(0.6, Plan.SEARCH), (0.3, Plan.SEARCH), (0.1, Plan.FULL_LOOP)])
def test_a_run_whose_answer_would_cite_nothing_searches_at_least_whatever_judge_and_model_said(
    profile: Profile, answerable: float, plan: Plan
) -> None:
    sure = small_model("sure", "test", bias=6.0)
    use = ModelUse(version=sure.version, model_sha256=sure.sha256, arm="promoted", bucket=0.1, propensity=1.0)
    judgement = Judgement(verdict="sufficient", words="it is there", model="judge-1")
    first = probed((hit(),), answerable=0.1, judgement=judgement)
    again = probed((hit(),), answerable=answerable, abstained=REFUSED)
    control = Control(model=use)
    plans = []
    for probe in (first, again):
        found = decide(asked(), probe, profile, OPEN, RICH, NOW, control, sure)
        told = explain(asked(), probe, found, profile, sure)
        assert told.model_dump_json() == found.model_dump_json()
        plans.append(found.plan)
    assert plans == [Plan.RETRIEVE, plan]
    assert [part.raw for part in found.contributions if part.feature == "abstained"] == [REFUSED]
    assert deciding_model(found) == HEURISTIC


def test_a_second_decision_is_lowered_like_the_first_and_leaves_talk_and_the_requests_plan_alone() -> None:
    again = probed((hit(),), answerable=0.6, abstained=REFUSED)
    closed = decided(probe=again, policy=CLOSED)
    assert (closed.plan, [veto.name for veto in closed.vetoes]) == (Plan.RETRIEVE, ["search_policy"])
    poor = RICH.model_copy(update={"run_usd_left": 0.0})
    assert [veto.name for veto in decided(probe=again, budget=poor).vetoes] == ["run_usd"]
    assert decided(asked(plan=Plan.RETRIEVE), again).plan is Plan.RETRIEVE
    assert decided(asked("what can you do?"), again).plan is Plan.RETRIEVE


@pytest.mark.parametrize(
    ("request_", "probe", "policy", "may"),
    [
        (asked(), probed((hit(),)), OPEN, True),
        (asked(plan=Plan.RETRIEVE), probed((hit(),)), OPEN, False),
        (asked(), probed(), OPEN, False),
        (asked(), probed((hit(),)), CLOSED, False),
        (asked(), probed(), CLOSED, False),
        (asked("what can you do?"), probed((hit(),)), OPEN, False),
        (asked("thanks a lot"), probed((hit(),)), OPEN, False),
    ],
    ids=["stays", "own plan", "goes out", "closed", "vetoed", "assistant", "talk"],
)
def test_only_a_run_that_the_gate_itself_kept_inside_is_decided_again(
    request_: GateRequested, probe: CoverageProbed, policy: PolicyState, may: bool
) -> None:
    assert may_reconsider(request_, decided(request_, probe, policy)) is may


def test_the_probability_falls_from_covered_to_an_empty_corpus() -> None:
    sentence = (ProbeSentence(chunk_id="c", similarity=0.72, term_coverage=1.0),)
    states = (probed((hit(0.7),), sentences=sentence), probed((hit(0.3),), terms=terms(1, 2)), probed())
    found = [decided(probe=probe).coverage_probability for probe in states]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.9
    assert found[-1] < 0.01


def test_newer_hits_never_raise_the_score() -> None:
    question = asked("who is the current governor")
    scores = [
        decided(question, probed((hit(age=timedelta(days=d)),), intent_similarity=URGENT)).score
        for d in (0, 1, 30, 400, 9_000)
    ]
    assert scores == sorted(scores)


@pytest.mark.parametrize("path", sorted((GOLDEN / "decisions").glob("*.json")), ids=lambda path: path.stem)
def test_a_decision_recorded_by_an_earlier_release_is_explained_byte_for_byte(path: Path) -> None:
    """With the profile it was made with, which gives the same bytes and hash too, whatever fields came since."""
    recorded = json.loads(path.read_text(encoding="utf-8"))
    profile = Profile.from_bytes(recorded["profile"].encode())
    assert profile.canonical_bytes() == recorded["profile"].encode()
    request = GateRequested.model_validate_json(recorded["request"])
    probe = CoverageProbed.model_validate_json(recorded["probed"])
    decision = GateDecided.model_validate_json(recorded["decided"])
    assert explain(request, probe, decision, profile).model_dump_json() == recorded["decided"]
