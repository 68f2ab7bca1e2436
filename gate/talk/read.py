"""Whether an utterance is talk: nothing that any source could answer better than the assistant itself.

Five kinds, each by rule and closed word lists (`gate/lexicons`), in many languages and without any model:

    small_talk      greetings, thanks, farewells, praise, complaints, yes and no
    assistant       about the assistant: who it is, what it can, how it feels
    conversation    about what was said: repeat that, shorter, what did I just ask
    arithmetic      calculations in digits or words
    given_text      translate, rewrite, correct, summarise a text that is given

Every sentence must be talk, and all its words must be of one language's lists: "hi! who won the cup?" is a question.
"""

from __future__ import annotations

from typing import Literal

from sluice.gate.talk.arithmetic import is_arithmetic
from sluice.gate.talk.given import is_of_given_text
from sluice.gate.talk.lexicon import Lexicon, Role
from sluice.gate.talk.phrases import read_roles
from sluice.gate.talk.text import is_wordless, split_sentences, without_emoticons

TalkKind = Literal["small_talk", "assistant", "conversation", "arithmetic", "given_text"]

MOST_SENTENCES = 6
FEW_WORDS = 5
"""Words of a bare "why?" or "and then?", which only a session gives a meaning."""
_SMALL = Role.SAID | Role.SOFT
_ABOUT_YOU = _SMALL | Role.YOU | Role.ABOUT | Role.FRAME
_ABOUT_TALK = _ABOUT_YOU | Role.CONVERSATION | Role.GIVEN | Role.WORDING | Role.CHANGE | Role.LANGUAGE
_IN_SESSION = _ABOUT_TALK | Role.REFERENCE | Role.NUMBER


def read_talk(utterance: str, lexicon: Lexicon, in_session: bool) -> TalkKind | None:
    """The kind of talk that `utterance` is, or None. Within a session, a reference to it is talk too."""
    if is_wordless(utterance):
        return "small_talk"
    if is_arithmetic(utterance, lexicon):
        return "arithmetic"
    if is_of_given_text(utterance, lexicon):
        return "given_text"
    sentences = split_sentences(without_emoticons(utterance))
    if len(sentences) > MOST_SENTENCES:
        return None
    kinds: list[TalkKind | None] = []
    for at, sentence in enumerate(sentences):
        kind = _sentence_kind(sentence, lexicon, in_session)
        rest = utterance[utterance.find(sentence) :]
        if kind is None and at > 0 and is_of_given_text(rest, lexicon):
            return "given_text"
        if kind is None and not is_arithmetic(sentence, lexicon):
            return None
        kinds.append(kind or "arithmetic")
    return next((kind for kind in reversed(kinds) if kind != "small_talk"), "small_talk") if kinds else None


def _sentence_kind(sentence: str, lexicon: Lexicon, in_session: bool) -> TalkKind | None:
    masks = {int(mask) for found in read_roles(sentence, lexicon) for mask in found}
    if any(mask & Role.SAID and not mask & ~_SMALL for mask in masks):
        return "small_talk"
    if any(mask & Role.CONVERSATION and not mask & ~_ABOUT_TALK for mask in masks):
        return "conversation"
    if any(mask & Role.YOU and _is_about_you(mask) for mask in masks):
        return "assistant"
    if in_session and any(mask & (Role.REFERENCE | Role.GIVEN) and not mask & ~_IN_SESSION for mask in masks):
        return "conversation"
    if in_session and len(sentence.split()) <= FEW_WORDS and any(not mask & ~(_SMALL | Role.FRAME) for mask in masks):
        return "conversation"
    return None


def _is_about_you(mask: int) -> bool:
    allowed = _ABOUT_YOU | (Role.SPEAK | Role.LANGUAGE if mask & Role.SPEAK else 0)
    return not mask & ~allowed
