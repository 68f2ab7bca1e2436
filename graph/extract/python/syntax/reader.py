"""What the handlers of syntax share: the reading so far, and the nodes that are still to be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tree_sitter import Node

from sluice.graph.extract.python.reading import MOST_USES, Reading, Store, Use, text
from sluice.graph.extract.python.scopes import DEEPEST, Binding, Scope, ScopeKind, Value


class Reader:
    """One reading of one file. Nodes are read in the order of the text, without recursion: nothing is too deep."""

    def __init__(self, root: Node, module: str, package: str) -> None:
        """`package` is what relative imports begin at."""
        self.package = package
        top = Scope(ScopeKind.MODULE, module, None, root)
        self.reading = Reading(top, [top], [], [], [], [], [], [])
        self.stack: list[tuple[Node, Scope]] = []
        """Nodes that are still to be read, each in its scope; the next is the last."""

    def push(self, nodes: Iterable[Node | None], scope: Scope) -> None:
        """Read these next, the first first."""
        self.stack.extend([(node, scope) for node in reversed(list(nodes)) if node is not None])

    def use(self, node: Node, scope: Scope, is_called: bool = False) -> None:
        """A name or a chain of attributes is used, or an expression is called."""
        if len(self.reading.uses) < MOST_USES:
            self.reading.uses.append(Use(scope, node, is_called))

    def attribute(self, node: Node, scope: Scope, is_called: bool = False) -> None:
        """A chain of attributes is used; what it begins with is read too, unless it is a name."""
        self.use(node, scope, is_called)
        base: Node | None = node
        while base is not None and base.type == "attribute":
            base = base.child_by_field_name("object")
        if base is not None and base.type != "identifier":
            self.stack.append((base, scope))

    def bind(self, scope: Scope, node: Node, binding: Binding) -> None:
        """The name at the node is bound in the scope."""
        scope.bind(text(node), binding)

    def store(self, node: Node, scope: Scope, value: Value) -> None:
        """The attribute at the node is assigned."""
        holder, attribute = node.child_by_field_name("object"), node.child_by_field_name("attribute")
        if holder is not None and holder.type == "identifier" and attribute is not None:
            self.reading.stores.append(Store(scope, node, text(holder), text(attribute), value))
        else:
            self.attribute(node, scope)

    def inner(self, kind: ScopeKind, name: str, named_in: Scope, parent: Scope, node: Node) -> Scope:
        """A scope that the node opens within `parent`; `parent` itself where there are too many around it."""
        if parent.depth >= DEEPEST:
            return parent
        qualified = f"{named_in.name}.{name}" if name else named_in.name
        inner = Scope(kind, qualified, parent, node, parent.depth + 1)
        self.reading.scopes.append(inner)
        return inner


Handler = Callable[[Reader, Node, Scope], None]
"""Reads one node in its scope, and pushes what of it is to be read further."""
