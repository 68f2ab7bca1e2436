"""Words that ask, by language (ISO 639-1): a passage that answers need not hold them.

English ones are among `gate.words.STOP_WORDS`; function words come from the index's analysis of each language.
"""

from __future__ import annotations

_WORDS = {
    "ar": "متى أين من ما ماذا لماذا كيف كم أي هل",
    "da": "hvornår hvem hvad hvor hvorfor hvordan hvilken hvilket hvilke mange",
    "de": "wann wer wen wem wessen wo woher wohin wie was welcher welche welches welchem welchen warum weshalb wieso "
    "wozu wieviel viele viel gibt heißt",
    "el": "πότε ποιος ποια ποιο ποιοι ποιες πού τι γιατί πώς πόσο πόσα πόσοι πόσες",
    "es": "cuándo cuando quién quien quiénes qué dónde donde cómo como cuál cuáles cuánto cuántos cuánta cuántas hay",
    "fi": "milloin kuka mikä mitä missä mistä mihin miksi miten kuinka montako paljonko",
    "fr": "quand qui que quoi où comment pourquoi combien quel quelle quels quelles lequel laquelle",
    "hu": "mikor ki kit mi mit hol hová honnan miért hogyan melyik hány mennyi milyen",
    "it": "quando chi che cosa dove come perché quale quali quanto quanti quanta quante",
    "nl": "wanneer wie wat waar waarom hoe welke welk hoeveel veel heet",
    "no": "når hvem hva hvor hvorfor hvordan hvilken hvilket hvilke mange mye heter",
    "pt": "quando quem que quê onde como qual quais quanto quantos quanta quantas porquê há",
    "ro": "când cine ce unde cum care cât câți câte câtă",
    "ru": "когда кто кого что чего где куда откуда как почему зачем какой какая какое какие каком сколько "
    "чей называется",
    "sv": "när vem vad var varför hur vilken vilket vilka många mycket heter",
    "tr": "ne zaman kim kimin nerede nereye neden niçin nasıl hangi kaç",
}
QUESTION_WORDS = {language: frozenset(words.split()) for language, words in _WORDS.items()}
