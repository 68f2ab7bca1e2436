"""Reads the tree of a Python file in one pass."""

from __future__ import annotations

from sluice.graph.extract.python.reading import Reading
from sluice.graph.extract.python.syntax import bindings, definitions, imports, patterns, uses
from sluice.graph.extract.python.syntax.reader import Handler, Reader

_HANDLERS: dict[str, Handler] = {
    **uses.HANDLERS,
    **definitions.HANDLERS,
    **bindings.HANDLERS,
    **patterns.HANDLERS,
    **imports.HANDLERS,
}


def read(reader: Reader) -> Reading:
    """The whole file. What has no handler is read child by child."""
    stack = reader.stack
    reader.push(reader.reading.module.node.named_children, reader.reading.module)
    while stack:
        node, scope = stack.pop()
        handler = _HANDLERS.get(node.type)
        if handler is not None:
            handler(reader, node, scope)
        elif node.child_count:
            stack.extend([(child, scope) for child in reversed(node.named_children)])
    return reader.reading
