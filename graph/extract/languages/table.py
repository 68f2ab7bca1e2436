"""The languages that are read by tags, by the names of their grammars."""

from __future__ import annotations

from sluice.graph.extract.languages.c import CPP, C
from sluice.graph.extract.languages.go import GO
from sluice.graph.extract.languages.java import JAVA
from sluice.graph.extract.languages.javascript import JAVASCRIPT, TSX, TYPESCRIPT
from sluice.graph.extract.languages.rules import Rules
from sluice.graph.extract.languages.rust import RUST

RULES: dict[str, Rules] = {
    "javascript": JAVASCRIPT,
    "typescript": TYPESCRIPT,
    "tsx": TSX,
    "go": GO,
    "rust": RUST,
    "java": JAVA,
    "c": C,
    "cpp": CPP,
}
