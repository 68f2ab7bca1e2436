"""Letters of other scripts that look like a Latin one (a selection of Unicode's confusables.txt, UTS 39)."""

from __future__ import annotations

_PAIRS = (
    ("аАɑα", "a"),
    ("ВвΒβ", "b"),
    ("сСϲ", "c"),
    ("ԁ", "d"),
    ("еЕёЁΕε", "e"),
    ("ɡ", "g"),
    ("һНΗн", "h"),
    ("іІΙιıї", "i"),
    ("јЈ", "j"),
    ("ΚκКк", "k"),
    ("ӏ", "l"),
    ("МΜм", "m"),
    ("Νո", "n"),
    ("оОοΟօ", "o"),
    ("рРρΡ", "p"),
    ("ԛ", "q"),
    ("г", "r"),
    ("ѕЅ", "s"),
    ("ТΤт", "t"),
    ("υս", "u"),
    ("ѵν", "v"),
    ("ԝѡω", "w"),
    ("хХχΧ", "x"),
    ("уУΥγ", "y"),
    ("Ζ", "z"),
)
LATIN_OF = {other: latin for others, latin in _PAIRS for other in others}
