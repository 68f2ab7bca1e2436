"""The finder of private data that an instance uses: our patterns, or these and presidio's national recognisers.

The latter find tax, health and bank numbers of some twenty countries, and need the extra `private`. A NoOp engine
stands in for a language model, so only recognisers by pattern and check digit are asked, and names of persons are not
looked for. Nothing goes to the network: `tldextract`, which presidio brings and which would fetch its list of suffixes
at first use, is kept to the list that comes with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Any

from sluice.contracts.errors import InvalidSetting
from sluice.contracts.trust import PrivateSpan
from sluice.trust.private.patterns import PatternFinder, keep_apart
from sluice.trust.settings import TrustSettings

LEAST_SCORE = 1.0
"""Of a find, from 0 to 1: that of one whose check digit is right."""
_FOUND_BY_PATTERNS = ["CREDIT_CARD", "EMAIL_ADDRESS", "IBAN_CODE", "IP_ADDRESS", "PHONE_NUMBER", "US_SSN"]
_NOT_PRIVATE = ["CRYPTO", "DATE_TIME", "URL"]
_WITHOUT_CHECK_DIGIT = ["TR_LICENSE_PLATE", "UK_VEHICLE_REGISTRATION"]
"""Found in one abstract of twenty; what is checked is their form."""
_LEFT_OUT = frozenset([*_FOUND_BY_PATTERNS, *_NOT_PRIVATE, *_WITHOUT_CHECK_DIGIT])


class PresidioFinder(PatternFinder):
    """Our own patterns and presidio's national recognisers. Loaded at the first text (some 3 s); safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @property
    def version(self) -> str:
        """Of the patterns and of presidio."""
        return f"{super().version}-presidio-{presidio_version()}"

    def find(self, text: str) -> tuple[PrivateSpan, ...]:
        """The spans, in order, none overlapping another. Kinds of presidio are its own in lower case: `uk_nhs`.

        Raises InvalidSetting where presidio is not installed.
        """
        own = super().find(text)
        if not any(character.isdigit() for character in text):
            return own
        with self._lock:
            found = load_recognisers()(text)
        national = (PrivateSpan(kind=kind.lower(), start=start, end=end) for kind, start, end in found)
        return keep_apart([*own, *national])


_FINDERS = {"own": PatternFinder(), "presidio": PresidioFinder()}


def build_finder(settings: TrustSettings) -> PatternFinder:
    """The finder that the settings ask for; the same one at each call."""
    return _FINDERS[settings.recognisers]


@cache
def presidio_version() -> str:
    """Of the package. Raises InvalidSetting where it is not installed."""
    try:
        return version("presidio-analyzer")
    except ModuleNotFoundError as error:
        raise InvalidSetting(
            "trust.recognisers", "presidio is not installed", "install the extra `private`, or set it to own"
        ) from error


@cache
def load_recognisers() -> Callable[[str], list[tuple[str, int, int]]]:
    """What finds (kind, start, end) in a text. Loads presidio, and first keeps `tldextract` from the network."""
    presidio_version()
    import tldextract

    tldextract.tldextract.TLD_EXTRACTOR = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
    from presidio_analyzer import AnalyzerEngine, PatternRecognizer, RecognizerRegistry, predefined_recognizers
    from presidio_analyzer.nlp_engine import NoOpNlpEngine

    kinds = [getattr(predefined_recognizers, name) for name in predefined_recognizers.__all__]
    by_check_digit: list[Any] = [
        one
        for one in kinds
        if isinstance(one, type)
        and issubclass(one, PatternRecognizer)
        and getattr(one, "validate_result", None) is not PatternRecognizer.validate_result
    ]
    registry = RecognizerRegistry([one(supported_language="en") for one in by_check_digit], supported_languages=["en"])
    no_model = NoOpNlpEngine(models=[{"lang_code": "en", "model_name": "none"}])
    engine: Any = AnalyzerEngine(registry=registry, nlp_engine=no_model, supported_languages=["en"])
    wanted = sorted(kind for kind in engine.get_supported_entities("en") if kind not in _LEFT_OUT)

    def find(text: str) -> list[tuple[str, int, int]]:
        found = engine.analyze(text, language="en", entities=wanted, score_threshold=LEAST_SCORE)
        return [(one.entity_type, one.start, one.end) for one in found]

    return find
