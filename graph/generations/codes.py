"""Labels, types and origins as small numbers, as a file of a generation holds them. New ones come at the end."""

from __future__ import annotations

from sluice.contracts.graph.model import EdgeType, NodeLabel, Origin

LABELS = (NodeLabel.DOCUMENT, NodeLabel.SYMBOL, NodeLabel.URL, NodeLabel.TOOL, NodeLabel.CONVERSATION)
TYPES = (
    EdgeType.REFERS_TO,
    EdgeType.LINKS_TO,
    EdgeType.DEFINED_IN,
    EdgeType.CITED_BY,
    EdgeType.RESOLVES_TO,
    EdgeType.ALIAS_OF,
    EdgeType.INHERITS,
    EdgeType.HAS_TYPE,
)
ORIGINS = (
    Origin.SCOPE,
    Origin.IMPORT,
    Origin.SELF,
    Origin.DEFINITION,
    Origin.LINK,
    Origin.TOOL,
    Origin.RUN,
    Origin.TEST,
    Origin.NAME,
    Origin.MENTION,
)

LABEL_CODES = {label: code for code, label in enumerate(LABELS)}
TYPE_CODES = {kind: code for code, kind in enumerate(TYPES)}
ORIGIN_CODES = {origin: code for code, origin in enumerate(ORIGINS)}
