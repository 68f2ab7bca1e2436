"""Evidence: what one citation of an answer rests on, for whom it may see, and what is done about a bad one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.contracts.api import FeedbackRequest, RunAccepted, RunView
from sluice.contracts.errors import Conflict, InvalidInput, NotFound
from sluice.contracts.gate import FeedbackGiven
from sluice.contracts.index import NO_TEXT, Answer, Citation
from sluice.contracts.learning.passages import PassageFeedback, PassageReason
from sluice.contracts.operations.evidence import MOST_SNIPPET, EvidenceView, FiredRule, OtherSource, Span, Standing
from sluice.contracts.operations.forget import ForgetRequest, NewEntry
from sluice.contracts.operations.quarantine import QuarantinePage
from sluice.contracts.retrieval import RetrievedChunk
from sluice.contracts.trust import TrustScore, Verdict
from sluice.ingest.url import origin_of, site_of
from sluice.text.words import FUNCTION_WORDS, UNSPACED, WORD, cut_sentences, stem
from sluice.trust.confidence import LEAST_OUTCOMES, PROBABLE
from sluice.trust.gates import MEAN_TRUST
from sluice.trust.private.mask import hide, mask_chunk
from sluice.trust.private.patterns import build_finder
from sluice.trust.snippets import cut_at_word, snippet_length
from sluice.trust.source_trust import parts_of
from sluice.workers.context import Context
from sluice.workers.service.callers import Caller
from sluice.workers.service.forget import ForgetDesk
from sluice.workers.service.service import Service
from sluice.workers.wiring.steering import MOST_JUDGED

MOST_SENTENCE, MOST_RULE_TEXT = 500, 80
"""Characters shown of the sentence that cites, and of the words that a rule matched."""
_LEAST_WINDOW = 20
"""A shorter snippet is the beginning of its passage."""
_MARKS = re.compile(r"(?:\[\d+\][\s,;.]*)+")


class EvidenceDesk:
    """The evidence of one instance's answers.

    Every method raises `NotFound` if there is no such run or citation, or it is not the caller's to see.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def one(self, run_id: str, number: int, caller: Caller) -> EvidenceView:
        """Return what is known of the citation `[number]` of the run's answer."""
        run, answer, citation, chunk = self._found(run_id, number, caller)
        ledger, corpus, settings = self._context.ledger, answer.corpus, self._context.settings.trust
        finder = build_finder(settings)
        shown = mask_chunk(chunk, settings.mask, finder)
        is_kept, is_held = self._kept_and_held(corpus, chunk)
        limit = snippet_length(chunk.provenance, chunk.metadata, settings.snippet_licences) or MOST_SNIPPET
        withheld = "the guard holds it back" if is_held else None if shown.text else NO_TEXT.strip("()")
        snippet, matched = make_snippet("" if withheld else shown.text, answer.query, min(limit, MOST_SNIPPET))
        score = next((one for one in answer.trust_scores if one.chunk_id == chunk.chunk_id), None)
        trust = citation.trust if score is None else score.score
        marks = ledger.marks.of_passage(run_id, chunk.chunk_id)
        responses = [one.body_as(FeedbackGiven).response for one in ledger.events_of_kind(run_id, FeedbackGiven.kind)]
        said_in_response = next(filter(None, (_citing(text or "", number) for text in responses)), None)
        sentence = said_in_response or _citing(answer.context, number)
        seen = ledger.page_memory(read_as="", is_there=lambda _: True).seen_at(corpus, [chunk.document_id])
        return EvidenceView(
            run_id=run_id,
            number=number,
            corpus=corpus,
            question=answer.query,
            sentence=sentence and hide(sentence, settings.mask, finder)[:MOST_SENTENCE],
            sentence_of="response" if said_in_response else "context" if sentence else None,
            snippet=snippet,
            matched=matched,
            withheld=withheld,
            standing="held back" if is_held else _standing(trust),
            trust=trust,
            trust_parts=parts_of(score) if isinstance(score, TrustScore) else (),
            doubt=self._context.doubts.passages(corpus).get(chunk.chunk_id, 0.0),
            confidence=citation.confidence,
            outcomes=len(ledger.outcomes.judged_from(corpus, MOST_JUDGED)),
            outcomes_needed=LEAST_OUTCOMES,
            origin=chunk.provenance.origin,
            source=citation.source,
            title=shown.title,
            author=shown.provenance.author,
            licence=citation.licence,
            url=chunk.url,
            link=citation.link,
            fetched_at=chunk.provenance.fetched_at,
            revalidated_at=seen.get(chunk.document_id),
            generation=answer.generation,
            rules=tuple(_rules(shown, is_shown=not withheld)),
            others=_others(answer, chunk),
            stale=next((one for one in run.stale if one.citation == number), None),
            document_id=chunk.document_id,
            chunk_id=chunk.chunk_id,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            is_kept=is_kept,
            said=next((one.reason for one in marks if one.owner == caller.owner), None),
            marks=len(marks),
        )

    def mark(self, run_id: str, number: int, caller: Caller, reason: PassageReason, note: str) -> str:
        """Record that the passage is bad evidence, once for each key; return what follows from it.

        Raises `Conflict` if the key said something else of it before.
        """
        self._found(run_id, number, caller)
        passage = PassageFeedback(citation=number, reason=reason, note=note)
        request = FeedbackRequest(run_id=run_id, passages=(passage,))
        service, is_operator = Service(self._context), caller.role == "operator"
        service.give_feedback(request, owner=caller.owner, is_operator=is_operator)
        return _FOLLOWS.get(reason, "")

    def keep_out_source(self, run_id: str, number: int, caller: Caller, note: str) -> str:
        """Put the source on the corpus's negative list: the site of a page, or the key that submitted it; return what
        is kept out. What is in the corpus stays. Raises `Conflict` for a source that has no name of its own."""
        _, answer, _, chunk = self._found(run_id, number, caller)
        source = chunk.provenance
        if source.source in ("crawl", "search") and chunk.url is not None:
            entry = NewEntry(corpus=answer.corpus, kind="url_prefix", value=f"{origin_of(chunk.url)}/", note=note)
        elif source.submitted_by is not None:
            entry = NewEntry(corpus=answer.corpus, kind="submitted_by", value=source.submitted_by, note=note)
        else:
            raise Conflict("it has neither a site nor a sender with a key, that could be kept out: forget the document")
        ForgetDesk(self._context).keep_out(entry, caller)
        return entry.value

    def forget(self, run_id: str, number: int, caller: Caller, note: str) -> RunAccepted:
        """Begin a run that forgets the cited document, and keeps it out."""
        _, answer, _, chunk = self._found(run_id, number, caller)
        request = ForgetRequest(corpus=answer.corpus, document_id=chunk.document_id, note=note)
        return ForgetDesk(self._context).forget(request, caller)

    def _found(self, run_id: str, number: int, caller: Caller) -> tuple[RunView, Answer, Citation, RetrievedChunk]:
        run = self._context.ledger.run(run_id)
        answer = run.answer
        if not caller.may_see(run.corpus):
            raise NotFound(f"no run {run_id}")
        citation = next((one for one in answer.citations if one.number == number), None) if answer else None
        if answer is None or citation is None:
            raise NotFound(
                f"the answer of run {run_id} has no citation [{number}]" if answer else f"run {run_id} has no answer"
            )
        return run, answer, citation, next(one for one in answer.chunks if one.chunk_id == citation.chunk_id)

    def _kept_and_held(self, corpus: str, chunk: RetrievedChunk) -> tuple[bool, bool]:
        """Return whether the corpus has the document still, and whether the guard blocks the passage by now."""
        ids, readers = {chunk.chunk_id, *chunk.passage}, self._context.readers
        reader = readers.reader(corpus) if readers.exists(corpus) else None
        is_kept = reader is not None and reader.document(chunk.document_id) is not None
        own = [one for one in reader.chunks(chunk.document_id) if one.chunk_id in ids] if reader and is_kept else []
        blocked = any(one.inspection and one.inspection.verdict is Verdict.BLOCKED for one in own)
        page = QuarantinePage(corpora=(corpus,), document_id=chunk.document_id, state="any")
        held = (one for one in self._context.ledger.quarantine.list(page) if one.state != "released")
        return is_kept, blocked or any(one.chunk_id in ids or one.checksum == chunk.checksum for one in held)


_FOLLOWS: dict[PassageReason, str] = {
    "outdated": "Its page is read again soon.",
    "wrong": "Said twice, its page and others of its host are crawled after the rest.",
    "attack": "Said twice, its page and others of its host are crawled after the rest.",
}
"""What follows from a reason, beside that the passage loses a share of its score and trust in later answers."""


def _standing(trust: float | None) -> Standing:
    return "trusted" if trust is not None and trust >= MEAN_TRUST else "unknown"


def _rules(shown: RetrievedChunk, *, is_shown: bool) -> Iterator[FiredRule]:
    for finding in shown.inspection.findings if shown.inspection else ():
        text = shown.text[finding.start : finding.end][:MOST_RULE_TEXT] if is_shown else ""
        yield FiredRule(rule=finding.rule, text=text, score=finding.score)


def _site(chunk: RetrievedChunk) -> str | None:
    """Return the registered domain of a page; None for what only claims an address."""
    if chunk.url is None or chunk.provenance.source not in ("crawl", "search"):
        return None
    try:
        return site_of(chunk.url) or None
    except InvalidInput:
        return None


def _others(answer: Answer, cited: RetrievedChunk) -> tuple[OtherSource, ...]:
    """Return the other sites whose passages probably answer, each by its best one. Near copies were left out before."""
    chunks = {chunk.chunk_id: chunk for chunk in answer.chunks}
    own, found = _site(cited), dict[str, OtherSource]()
    for citation in answer.citations:
        chunk, sure = chunks[citation.chunk_id], citation.confidence or 0.0
        site = _site(chunk)
        if site is None or site == own or sure < PROBABLE or chunk.is_flood:
            continue
        if site not in found or sure > found[site].confidence:
            found[site] = OtherSource(site=site, number=citation.number, confidence=sure)
    return tuple(sorted(found.values(), key=lambda one: -one.confidence))


def _citing(text: str, number: int) -> str | None:
    """Return the first sentence of a text that has the mark of a citation, which may stand behind its full stop."""
    mark = f"[{number}]"
    line = next((line for line in text.splitlines() if mark in line), "")
    sentences = cut_sentences(line)
    for place, sentence in enumerate(sentences):
        if mark in sentence:
            leading = _MARKS.match(sentence)
            if place and leading and mark in leading[0]:
                return f"{sentences[place - 1]} {leading[0].strip()}"
            return sentence
    return None


def make_snippet(text: str, question: str, most: int) -> tuple[str, tuple[Span, ...]]:
    """Return at most `most` characters of a text, where most different words of a question are, and their places."""
    text = re.sub(r"\s", " ", text)
    if most < _LEAST_WINDOW:
        return text[:most], ()
    found = sorted(_matches(text, question))
    room = most - 4  # for the signs of a cut at either end, with their spaces
    ahead = room // 4  # of what stands before the first word

    def worth(start: int) -> tuple[int, int]:
        """Return how many different words stand from there on, and minus how far one must read for all of them."""
        words: dict[str, int] = {}
        for begin, end, word in found:
            if start <= begin and end <= start + room - ahead:
                words.setdefault(word, end)
        return len(words), start - max(words.values())

    first = max((start for start, end, _ in found if end - start <= room - ahead), key=worth, default=0)
    begins = max(0, min(first - ahead, len(text) - room))
    if begins:
        space = text.find(" ", begins, first)
        begins = space + 1 if space >= 0 else begins
    cut = cut_at_word(text[begins:], room)
    head, tail = "… " if begins else "", " …" if begins + len(cut) < len(text.rstrip()) else ""
    shift, last = len(head) - begins, begins + len(cut)
    spans = (Span(start=start + shift, end=end + shift) for start, end, _ in found if begins <= start and end <= last)
    return f"{head}{cut}{tail}", tuple(spans)


def _matches(text: str, question: str) -> Iterator[tuple[int, int, str]]:
    """Yield the places of a question's content words in a text; of scripts without spaces, of pairs of letters."""
    asked = {word.group().lower() for word in WORD.finditer(question)}
    stems = {stem(word) for word in asked - {*FUNCTION_WORDS} if not UNSPACED.search(word)}
    pairs = {word[place : place + 2] for word in asked if UNSPACED.search(word) for place in range(len(word) - 1)}
    last = 0
    for word in WORD.finditer(text):
        lower = word.group().lower()
        if stem(lower) in stems:
            yield word.start(), word.end(), stem(lower)
        for place in range(len(lower) - 1) if pairs and UNSPACED.search(lower) else ():
            start = word.start() + place
            if lower[place : place + 2] in pairs and start >= last:
                last = start + 2
                yield start, last, lower[place : place + 2]
