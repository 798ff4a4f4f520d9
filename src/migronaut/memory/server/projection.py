"""The tree of paths that a stage of an update pipeline sets, keeps or removes."""

from __future__ import annotations

from collections.abc import Sequence

from migronaut.memory.server.expressions import ROOT, Expression
from migronaut.memory.server.query import QueryUnsupportedError
from migronaut.memory.server.values import MISSING, Kind, Value, array, fields, items, present


class Node:
    """The fields of one level: what is computed, what is named, and the levels below."""

    def __init__(self) -> None:
        self._named: set[bytes] = set()
        self._steps: dict[bytes, Expression | Node] = {}

    @property
    def has_computed(self) -> bool:
        """True when an expression is computed here or below."""
        return any(not isinstance(step, Node) or step.has_computed for step in self._steps.values())

    def name(self, path: Sequence[bytes]) -> None:
        """Keep or remove the value at a path.

        Raises:
            QueryUnsupportedError: The path is in the tree, or one above or below it.
        """
        node = self._parent(path)
        if path[-1] in node._named or path[-1] in node._steps:
            raise QueryUnsupportedError("paths that overlap")
        node._named.add(path[-1])

    def compute(self, path: Sequence[bytes], expression: Expression) -> None:
        """Set the value at a path.

        Raises:
            QueryUnsupportedError: The path is in the tree, or one above or below it.
        """
        node = self._parent(path)
        if path[-1] in node._named or path[-1] in node._steps:
            raise QueryUnsupportedError("paths that overlap")
        node._steps[path[-1]] = expression

    def included(self, value: Value) -> Value:
        """A document with nothing but the fields that are named, and the levels below."""
        kept = {}
        for name, field in present(value).items():
            step = self._steps.get(name)
            if name in self._named:
                kept[name] = field
            elif isinstance(step, Node):
                kept[name] = step._included_below(field)
        return Value(Kind.OBJECT, kept)

    def excluded(self, value: Value) -> Value:
        """A document without the fields that are named; their places stay."""
        there = present(value)
        removed = {name: MISSING for name in there if name in self._named}
        below = {
            name: step._excluded_below(there[name])
            for name, step in self._steps.items()
            if isinstance(step, Node) and name in there
        }
        return Value(Kind.OBJECT, {**fields(value), **removed, **below}) if removed or below else value

    def computed(self, value: Value, root: Value) -> Value:
        """A document in which the expressions are computed; they see ``root``."""
        after = fields(value)
        for name, step in self._steps.items():
            if isinstance(step, Node):
                after[name] = step._computed_below(after.get(name, MISSING), root)
            else:
                after[name] = step({ROOT: root})
        return Value(Kind.OBJECT, after)

    def _parent(self, path: Sequence[bytes]) -> Node:
        node = self
        for name in path[:-1]:
            below = node._steps.setdefault(name, Node())
            if name in node._named or not isinstance(below, Node):
                raise QueryUnsupportedError("paths that overlap")
            node = below
        return node

    def _included_below(self, value: Value) -> Value:
        if value.kind == Kind.OBJECT:
            return self.included(value)
        # An element that has no fields is left out when the document is written, not before.
        return array(self._included_below(item) for item in items(value)) if value.kind == Kind.ARRAY else MISSING

    def _excluded_below(self, value: Value) -> Value:
        if value.kind == Kind.OBJECT:
            return self.excluded(value)
        return array(self._excluded_below(item) for item in items(value)) if value.kind == Kind.ARRAY else value

    def _computed_below(self, value: Value, root: Value) -> Value:
        if value.kind == Kind.OBJECT:
            return self.computed(value, root)
        if value.kind == Kind.ARRAY:
            return array(self._computed_below(item, root) for item in items(value))
        # A document of what is computed takes the place of anything else.
        return self.computed(Value(Kind.OBJECT, {}), root) if self.has_computed else MISSING
