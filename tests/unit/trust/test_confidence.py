"""Confidence: monotone in what speaks for a passage, and silent where the formula does not apply."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.document import Provenance
from sluice.contracts.graph.model import GraphUse
from sluice.contracts.retrieval import Retrieval, RetrievedChunk
from sluice.contracts.trust import TrustFactors, TrustScore
from sluice.trust.confidence import (
    BY_MEANING,
    BY_TOKENS,
    BY_WORDS,
    UNLIKELY,
    WINDOW_CHARACTERS,
    Asked,
    CoverageMeter,
    Formula,
    JudgedAnswer,
    ReadFormula,
    describe_limits,
    fit_prior,
    judge,
    probability,
)
from tests.support.retrieved import NOW, retrieval_of, retrieved

RARE, COMMON = 6.0, 1.0
SHARES = st.floats(0, 1)
CHUNKS = st.integers(1, 10_000_000)


def analyse(text: str, language: str | None) -> list[str]:
    del language
    return text.lower().replace(".", " ").split()


def site_of(url: str) -> str:
    return url.split("/")[2]


ASKED = Asked(
    words={"lease": RARE, "renewed": RARE, "holder": COMMON},
    rarest=RARE,
    chunk_count=1_000,
    analyse=analyse,
    model_fingerprint="all-MiniLM-L6-v2/384/fp32",
    is_english=True,
    may_be_english=lambda text: "lease" in text,
    site_of=site_of,
)
FULL = "A lease is renewed by its holder."


def confidences(*chunks: RetrievedChunk, asked: Asked = ASKED) -> list[float]:
    return [chunk.confidence or -1.0 for chunk in judge(retrieval_of(*chunks), asked).chunks]


@pytest.mark.parametrize("formula", [BY_TOKENS, BY_MEANING, BY_WORDS])
@given(cosine=SHARES, coverage=SHARES, chunks=CHUNKS, more=SHARES)
def test_a_passage_that_is_nearer_or_holds_more_of_the_question_is_never_less_confident(
    formula: Formula | ReadFormula, cosine: float, coverage: float, chunks: int, more: float
) -> None:
    base = formula.log_odds(cosine, coverage, chunks)
    assert formula.log_odds(cosine + more, coverage, chunks) >= base
    assert formula.log_odds(cosine, coverage + more, chunks) >= base
    assert formula.log_odds(cosine, coverage, chunks * 2) <= base
    assert 0 < probability(base) < 1


def test_coverage_weighs_words_by_their_rarity_in_text_and_headings() -> None:
    meter = CoverageMeter(ASKED.words, ASKED.rarest, analyse)
    assert meter.share(retrieved("a", FULL)) == 1.0
    assert meter.share(retrieved("b", "the holder")) == pytest.approx(COMMON / 13)
    assert meter.share(retrieved("c", "the holder", title="Lease")) == pytest.approx(7 / 13)
    assert meter.share(retrieved("d", "something else")) == 0.0
    assert CoverageMeter({}, RARE, analyse).share(retrieved("e")) == 1.0, "a question without words asks for none"


def test_of_a_long_question_a_few_rare_words_are_enough() -> None:
    words = {f"word{number}": RARE for number in range(30)}
    passage = retrieved("a", " ".join(list(words)[:4]))
    assert CoverageMeter(words, RARE, analyse).share(passage) == 1.0


def test_each_passage_has_its_own_confidence_and_the_whole_that_of_the_best() -> None:
    near, far = retrieved("a", FULL, dense_distance=0.3), retrieved("b", "nothing of it", dense_distance=0.9)
    found = judge(retrieval_of(far, near), ASKED)
    low, high = (chunk.confidence for chunk in found.chunks)
    assert low is not None
    assert high is not None
    assert low < 0.2 < 0.7 < high
    assert (found.metadata.confidence, found.metadata.limits) == (high, None)


def test_a_low_confidence_comes_with_one_sentence_on_its_limits() -> None:
    found = judge(retrieval_of(retrieved("b", "nothing of it", dense_distance=0.9)), ASKED)
    percent = math.floor(100 * (found.metadata.confidence or 0))
    assert found.metadata.limits == f"Confidence {percent} %: the corpus holds nothing that is likely to answer."
    told = [describe_limits(value) for value in (0.1, 0.3, 0.5, 0.69, 0.7)]
    assert len({(one or "").partition(":")[2] for one in told[:3]}) == 3
    assert [one is None for one in told] == [False, False, False, False, True]


def test_without_a_vector_the_words_alone_are_judged_and_the_limits_say_so() -> None:
    asked = replace(ASKED, model_fingerprint=None)
    found = judge(retrieval_of(retrieved("a", "the holder", dense_distance=None)), asked)
    assert (found.metadata.confidence or 1) < 0.4
    assert "by the question's words alone" in (found.metadata.limits or "")
    assert not asked.may_drop, "the right passage may say it in other words"


def test_another_models_cosines_are_not_read_and_nothing_is_dropped_for_them() -> None:
    asked = replace(ASKED, model_fingerprint="text-embedding-3-small/1536")
    [near] = confidences(retrieved("a", FULL, dense_distance=0.1), asked=asked)
    [far] = confidences(retrieved("a", FULL, dense_distance=0.8), asked=asked)
    assert near == far > 0.5
    assert not asked.may_drop


def test_a_question_in_another_language_is_judged_by_its_words_and_the_limits_say_so() -> None:
    asked = replace(ASKED, is_english=False, match_tokens=not_called)
    near, far = retrieved("a", "a holder", dense_distance=0.1), retrieved("b", "none", dense_distance=0.0)
    found = judge(retrieval_of(near, far), asked)
    low, lowest = (chunk.confidence or 0.0 for chunk in found.chunks)
    assert lowest < low < 0.2, "whatever the vectors say"
    assert "not to be in English" in (found.metadata.limits or "")
    [whole] = confidences(retrieved("a", FULL, dense_distance=0.9), asked=asked)
    assert whole > 0.7
    assert asked.may_drop


def test_a_passage_in_another_language_is_judged_by_its_words_and_a_mistaken_one_by_meaning() -> None:
    german = retrieved("a", "Ein Mietvertrag wird erneuert.", language="de", dense_distance=0.1)
    mistaken, code = retrieved("b", FULL, language="de"), retrieved("c", "def renew(lease): ...", language="python")
    judged = judge(retrieval_of(german, mistaken, code), ASKED)
    assert (judged.chunks[0].confidence or 1) < 0.2
    assert judged.metadata.confidence == judged.chunks[1].confidence
    alone = judge(retrieval_of(german), ASKED).metadata
    assert "not to be in English" in (alone.limits or "")


def not_called(passage: str) -> float:
    raise AssertionError(passage)


def test_the_best_passage_is_read_closely_and_no_other_is_surer() -> None:
    best, other = retrieved("a", FULL, dense_distance=0.2), retrieved("b", FULL, dense_distance=0.3)
    far = retrieved("c", "nothing of it", dense_distance=0.9)
    before = confidences(best, other, far)
    read: list[str] = []

    def matching(value: float) -> list[float]:
        return confidences(best, other, far, asked=replace(ASKED, match_tokens=lambda text: read.append(text) or value))

    weak, strong = matching(0.3), matching(0.9)
    assert read == [FULL, FULL]
    assert weak[0] == weak[1] < before[1] < before[0]
    assert strong[0] > 0.7
    assert strong[1:] == before[1:]
    assert confidences(far, asked=replace(ASKED, match_tokens=not_called)) == before[2:], "nothing there to read"


def test_the_window_is_the_sentence_with_most_words_and_those_around_it_below_its_headings() -> None:
    meter = CoverageMeter(ASKED.words, ASKED.rarest, analyse)
    filler = "Something else stands here, and it goes on for a hundred characters or so, which nobody reads."
    text = " ".join([filler, filler, "A lease ends.", "It is renewed by the holder.", filler, filler, filler])
    window = meter.window(retrieved("a", text, title="Leases"))
    assert window.startswith("Leases. ")
    assert "A lease ends. It is renewed by the holder." in window
    assert len(window) < WINDOW_CHARACTERS + 120
    asks = meter.window(
        retrieved("b", f"Is a lease renewed by its holder?\n{filler}\n{filler}\n{filler}\nA lease is renewed.")
    )
    assert asks.endswith("A lease is renewed."), "a question is no answer"
    assert meter.window(retrieved("c", "")) == ""


def test_a_passage_without_a_vector_is_judged_by_its_words() -> None:
    whole, nothing = retrieved("a", FULL, dense_distance=None), retrieved("b", "none", dense_distance=None)
    high, low = confidences(whole, nothing)
    assert low < 0.2 < high


def test_untrusted_and_old_sources_count_against_a_passage_and_a_little_only() -> None:
    def of(trust: float, freshness: float) -> float:
        found = retrieval_of(retrieved("a", FULL, trust=trust, dense_distance=0.6))
        factors = TrustFactors(time_freshness=freshness)
        score = TrustScore(chunk_id="a", score=trust, factors=factors, origin="crawled")
        metadata = found.metadata.model_copy(update={"trust_scores": (score,)})
        return judge(found.model_copy(update={"metadata": metadata}), ASKED).metadata.confidence or 0.0

    assert of(1.0, 1.0) == of(0.5, 1.0) > of(0.2, 1.0) > of(0.0, 1.0) > of(1.0, 1.0) - 0.15
    assert of(1.0, 1.0) > of(1.0, 0.85) > of(1.0, 0.7) > of(1.0, 1.0) - 0.15


def test_other_domains_that_probably_answer_too_raise_the_confidence_and_mirrors_do_not() -> None:
    def of(*urls: str, source: str = "crawl") -> float:
        provenance = Provenance.model_validate({"source": source, "fetched_at": NOW})
        rows = [
            retrieved(str(row), FULL, url=url, dense_distance=0.5, provenance=provenance)
            for row, url in enumerate(urls)
        ]
        return confidences(*rows)[0]

    alone = of("https://a.org/1")
    assert of("https://a.org/1", "https://a.org/2") == alone, "one domain is one source"
    two, three = of("https://a.org/1", "https://b.org/1"), of("https://a.org/1", "https://b.org/1", "https://c.org/1")
    assert alone < two < three
    assert of(*(f"https://{name}.org/1" for name in "abcdef")) == three, "more add nothing"
    assert of("https://a.org/1", "https://b.org/1", source="submission") == alone, "a submission only claims its URL"


def test_an_empty_retrieval_stays_as_it_is() -> None:
    empty: Retrieval = retrieval_of()
    assert judge(empty, ASKED) is empty


def test_judging_eight_passages_takes_less_than_a_millisecond_besides_the_analysis() -> None:
    found = retrieval_of(*(retrieved(str(row), FULL * 20) for row in range(8)))
    asked = replace(ASKED, analyse=lambda text, language: ("lease", "holder"))
    seconds = []
    for _ in range(50):
        started = time.thread_time()
        judge(found, asked)
        seconds.append(time.thread_time() - started)
    assert min(seconds) < 0.001


def test_a_passage_without_a_number_of_the_question_is_less_sure() -> None:
    asked = replace(ASKED, words=dict(ASKED.words) | {"p200": RARE})
    right, wrong = retrieved("a", f"P200: {FULL}", title="P200"), retrieved("b", f"P100: {FULL}", title="P100")
    high, low = confidences(right, wrong, asked=asked)
    assert low < high
    [without_a_word] = confidences(wrong, asked=replace(ASKED, words=dict(ASKED.words) | {"model": RARE}))
    assert low < without_a_word, "a number counts for more than another word"


def outcomes(count: int, said: float, happened: float, judge: str = "one") -> list[JudgedAnswer]:
    return [JudgedAnswer(said, happened, judge)] * count


def test_a_corpus_whose_answers_were_better_or_worse_than_said_gets_a_bounded_prior() -> None:
    def prior(*answers: JudgedAnswer) -> float:
        return fit_prior(answers, has_several=False)

    assert prior() == prior(*outcomes(19, 0.5, 1.0)) == 0.0, "too few say nothing"
    assert prior(*outcomes(50, 0.5, 1.0), *outcomes(50, 0.5, 0.0)) == pytest.approx(0.0)
    few, many = prior(*outcomes(17, 0.5, 1.0), *outcomes(3, 0.5, 0.0)), prior(*outcomes(500, 0.5, 1.0))
    assert 0.5 < few < many == 2.0
    assert prior(*outcomes(500, 1.0, 0.0)) == -1.0


def test_of_several_judges_nobody_alone_shifts_what_others_read() -> None:
    def prior(*answers: JudgedAnswer) -> float:
        return fit_prior(answers, has_several=True)

    flood, honest = outcomes(480, 0.5, 1.0, "one"), outcomes(40, 0.6, 0.6, "two")
    assert prior(*flood) == 0.0
    assert prior(*flood, *honest) == pytest.approx(0.0)
    assert prior(*flood, *outcomes(40, 0.5, 0.3, "two")) == 0.0, "they differ"
    agree = [*flood, *outcomes(40, 0.5, 0.8, "two"), *outcomes(40, 0.5, 0.9, "three")]
    assert 0.5 < prior(*agree) < 2.0


def test_a_prior_shifts_the_passage_that_was_read_and_the_evidence_stays_beside_it() -> None:
    near, far = retrieved("a", FULL, dense_distance=0.5), retrieved("b", "nothing of it", dense_distance=0.9)

    def judged(prior: float, match: float = 0.4) -> Retrieval:
        asked = replace(ASKED, match_tokens=lambda text: match, prior=prior)
        return judge(retrieval_of(near, far), asked)

    plain, raised, lowered = judged(0.0), judged(1.0), judged(-1.0)
    assert plain.metadata.evidence is None
    assert (lowered.metadata.confidence or 1) < (plain.metadata.confidence or 0) < (raised.metadata.confidence or 0)
    for shifted in (raised, lowered):
        assert shifted.metadata.evidence == pytest.approx(plain.metadata.confidence, abs=0.001)
    absent = judged(2.0, match=-0.2).metadata
    assert (absent.confidence or 1) < 0.2, "a topic that is not there stays absent"


def test_a_passage_about_another_thing_is_shown_as_hardly_answering_and_the_next_is_read() -> None:
    asked = replace(ASKED, is_about_another=lambda text: "A5" in text, match_tokens=lambda passage: 0.9)
    other, own = retrieved("a", f"A5: {FULL}", dense_distance=0.1), retrieved("b", f"A3: {FULL}", dense_distance=0.3)
    of_other, of_own = confidences(other, own, asked=asked)
    assert of_other <= 0.25 < of_own


def test_where_the_relatives_of_a_named_thing_are_asked_for_the_match_is_the_graphs_probability() -> None:
    chunks = retrieved("far", dense_distance=0.9, graph_score=0.86), retrieved("near", dense_distance=0.1)
    plain = retrieval_of(*chunks)
    use = GraphUse(candidates=1, is_asked_for=True, generation="graph-1")
    found = plain.model_copy(update={"metadata": plain.metadata.model_copy(update={"graph": use})})
    judged = judge(found, ASKED)
    first, second = (chunk.confidence or 0.0 for chunk in judged.chunks)
    assert first == pytest.approx(0.86, abs=0.03)
    assert second <= UNLIKELY
    assert judged.metadata.limits is None
    assert (judge(plain, ASKED).chunks[0].confidence or 0.0) < first
