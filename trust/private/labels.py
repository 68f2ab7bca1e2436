"""The words before a number, which say what it is: an order, a version, a telephone number."""

from __future__ import annotations

import re

REACH = 48
"""Characters before a number in which a word says what it is; beyond them it speaks of something else."""

_OTHER_NUMBER = re.compile(
    r"\b(?:order|invoice|tracking|shipment|parcel|waybill|consignment|imei|imsi|iccid|serial|isbn|issn|ean|gtin|upc|sku|"
    r"asin|part|model|item|product|article|transaction|timestamp|epoch|build|commit|revision|rev|ticket|case|docket|"
    r"reference|ref|patent|grant|version|ver|release|doi|pmid|oid|checksum|hash|seed|coordinates?|latitude|longitude|"
    r"lat|lon|lng|barcode|batch|lot|job|session|request|message|tweet|status|track|catalog(?:ue)?|registration|vat)"
    r"(?![a-z])[^\d\n]{0,20}$",
    re.IGNORECASE,
)
_CARD = re.compile(
    r"\b(?:cards?|credit|debit|visa|mastercard|amex|american express|discover|maestro|diners|jcb|pan|cc|payment|"
    r"pay(?:ing)?|charged?|kreditkarte|karte|carte|tarjeta|cart[aã]o|carta)\b",
    re.IGNORECASE,
)


def names_other_number(text: str, start: int) -> bool:
    """Whether the words right before `start` say that the number there is of an order, a part, a version and so on."""
    return _OTHER_NUMBER.search(text, max(0, start - REACH), start) is not None


def names_card(text: str, start: int) -> bool:
    """Whether the words before `start` speak of a payment card."""
    return _CARD.search(text, max(0, start - REACH), start) is not None
