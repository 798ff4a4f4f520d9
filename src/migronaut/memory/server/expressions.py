"""A small evaluator of MongoDB's aggregation expressions: paths, variables, literals and the forms that bind or choose.

What it does not know, or what MongoDB refuses to parse, it refuses when an expression is compiled; it never guesses.
Source of the semantics: MongoDB manual, "Expressions", and MongoDB 6.0 itself, with which the project's tests compare.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from migronaut.core.ports import WriteRefusedError
from migronaut.memory.server.operators import operator
from migronaut.memory.server.query import QueryUnsupportedError
from migronaut.memory.server.values import (
    MISSING,
    NULL,
    Kind,
    Value,
    array,
    characters,
    fields,
    is_nullish,
    is_true,
    items,
    present,
)

Scope = Mapping[bytes, Value]
"""The variables that an expression sees; ``ROOT`` is the document."""
Expression = Callable[[Scope], Value]
_Names = frozenset[bytes]

ROOT = b"ROOT"
_SYSTEM: _Names = frozenset({ROOT, b"CURRENT", b"REMOVE"})
_VARIABLE = re.compile(rb"[a-z\x80-\xff][A-Za-z0-9_\x80-\xff]*")
_MAP_TYPE, _FILTER_TYPE, _NO_BRANCH = 16883, 28651, 40066


def compile_expression(value: Value, names: _Names = frozenset()) -> Expression:
    """Make a function of the variables out of an expression.

    Args:
        value: The expression as BSON.
        names: The user's variables that are bound around it.

    Raises:
        QueryUnsupportedError: Something that is not supported, or that MongoDB refuses.
    """
    if value.kind == Kind.STRING and characters(value).startswith(b"$"):
        return _path(characters(value), names)
    if value.kind == Kind.ARRAY:
        return _array([compile_expression(item, names) for item in items(value)])
    if value.kind == Kind.OBJECT:
        inner = fields(value)
        if is_operator(inner):
            return _operator(*next(iter(inner.items())), names)
        for name in inner:
            path_parts(name)
        if any(b"." in name for name in inner):
            raise QueryUnsupportedError("a path as a name in a document of an expression")
        return _document({name: compile_expression(part, names) for name, part in inner.items()})
    return lambda _: value


def is_operator(inner: Mapping[bytes, Value]) -> bool:
    """True for the fields of ``{"$operator": arguments}``.

    Raises:
        QueryUnsupportedError: An operator among other fields.
    """
    if not any(name.startswith(b"$") for name in inner):
        return False
    if len(inner) > 1:
        raise QueryUnsupportedError("an operator among other fields")
    return True


def path_parts(path: bytes) -> tuple[bytes, ...]:
    """The names in a path.

    Raises:
        QueryUnsupportedError: No path for MongoDB.
    """
    parts = tuple(path.split(b"."))
    if not all(parts) or any(part.startswith(b"$") for part in parts):
        raise QueryUnsupportedError("paths with an empty name or a name that starts with $")
    return parts


def _path(path: bytes, names: _Names) -> Expression:
    if not path.startswith(b"$$"):
        parts = path_parts(path[1:])
        return lambda scope: _lookup(scope[ROOT], parts)
    variable, *rest = path_parts(path[2:])
    if variable not in _SYSTEM | names:
        raise QueryUnsupportedError(f"the variable $${variable.decode('utf-8', 'replace')}")
    if variable == b"REMOVE":
        return lambda _: MISSING
    name = ROOT if variable == b"CURRENT" else variable
    return lambda scope: _lookup(scope[name], rest)


def _lookup(value: Value, parts: Sequence[bytes]) -> Value:
    """What a path leads to; in an array it leads through the documents that are its elements, but no deeper."""
    if not parts:
        return value
    if value.kind == Kind.OBJECT:
        return _lookup(fields(value).get(parts[0], MISSING), parts[1:])
    if value.kind == Kind.ARRAY:
        found = [_lookup(item, parts) for item in items(value) if item.kind == Kind.OBJECT]
        return array(part for part in found if part.kind != Kind.MISSING)
    return MISSING


def _array(parts: Sequence[Expression]) -> Expression:
    return lambda scope: array(_or_null(part(scope)) for part in parts)


def _or_null(value: Value) -> Value:
    return NULL if value.kind == Kind.MISSING else value


def _document(parts: Mapping[bytes, Expression]) -> Expression:
    return lambda scope: Value(Kind.OBJECT, {name: part(scope) for name, part in parts.items()})


def _operator(name: bytes, value: Value, names: _Names) -> Expression:
    form = _FORMS.get(name)
    if form is not None:
        return form(value, names)
    parts = [compile_expression(part, names) for part in _arguments(value)]
    function = operator(name.decode("utf-8", "replace"), len(parts))

    def evaluate(scope: Scope) -> Value:
        """The operator's value for its arguments."""
        arguments: Iterator[Value] = (part(scope) for part in parts)
        return function(arguments)

    return evaluate


def _arguments(value: Value) -> tuple[Value, ...]:
    return items(value) if value.kind == Kind.ARRAY else (value,)


def _literal(value: Value, _: _Names) -> Expression:
    return lambda _: value


def _named(value: Value, form: str, required: Sequence[bytes], optional: Sequence[bytes] = ()) -> dict[bytes, Value]:
    """The named arguments of a form."""
    found = fields(value) if value.kind == Kind.OBJECT else {}
    if not set(required) <= found.keys() <= {*required, *optional}:
        raise QueryUnsupportedError(f"{form} with these arguments")
    return found


def _cond(value: Value, names: _Names) -> Expression:
    if value.kind == Kind.OBJECT:
        given = _named(value, "$cond", (b"if", b"then", b"else"))
        chosen: Sequence[Value] = (given[b"if"], given[b"then"], given[b"else"])
    else:
        chosen = _arguments(value)
    if len(chosen) != 3:
        raise QueryUnsupportedError(f"$cond with {len(chosen)} arguments")
    test, then, otherwise = (compile_expression(part, names) for part in chosen)
    return lambda scope: then(scope) if is_true(test(scope)) else otherwise(scope)


def _switch(value: Value, names: _Names) -> Expression:
    given = _named(value, "$switch", (b"branches",), (b"default",))
    branches = given[b"branches"]
    if branches.kind != Kind.ARRAY or not items(branches):
        raise QueryUnsupportedError("$switch without branches")
    cases = []
    for branch in items(branches):
        parts = _named(branch, "a branch of $switch", (b"case", b"then"))
        cases.append((compile_expression(parts[b"case"], names), compile_expression(parts[b"then"], names)))
    default = compile_expression(given[b"default"], names) if b"default" in given else None

    def evaluate(scope: Scope) -> Value:
        """The value of the first case that holds."""
        for case, then in cases:
            if is_true(case(scope)):
                return then(scope)
        if default is None:
            raise WriteRefusedError(_NO_BRANCH)
        return default(scope)

    return evaluate


def _let(value: Value, names: _Names) -> Expression:
    given = _named(value, "$let", (b"vars", b"in"))
    if given[b"vars"].kind != Kind.OBJECT:
        raise QueryUnsupportedError("$let without variables")
    bound = {_variable(name): compile_expression(part, names) for name, part in present(given[b"vars"]).items()}
    inside = compile_expression(given[b"in"], names | bound.keys())
    return lambda scope: inside({**scope, **{name: part(scope) for name, part in bound.items()}})


def _variable(name: bytes) -> bytes:
    if not _VARIABLE.fullmatch(name):
        raise QueryUnsupportedError("variables that do not start with a small letter")
    return name


def _over(given: Mapping[bytes, Value], inside: bytes, names: _Names) -> tuple[Expression, bytes, Expression]:
    """Input, variable and body of $map and $filter."""
    as_ = given.get(b"as")
    if as_ is not None and as_.kind != Kind.STRING:
        raise QueryUnsupportedError("a variable whose name is no text")
    name = b"this" if as_ is None else _variable(characters(as_))
    return compile_expression(given[b"input"], names), name, compile_expression(given[inside], names | {name})


def _map(value: Value, names: _Names) -> Expression:
    given = _named(value, "$map", (b"input", b"in"), (b"as",))
    source, name, body = _over(given, b"in", names)
    return _on_items(source, _MAP_TYPE, lambda scope, found: (_or_null(body({**scope, name: item})) for item in found))


def _filter(value: Value, names: _Names) -> Expression:
    given = _named(value, "$filter", (b"input", b"cond"), (b"as",))
    source, name, test = _over(given, b"cond", names)
    return _on_items(
        source, _FILTER_TYPE, lambda scope, found: (item for item in found if is_true(test({**scope, name: item})))
    )


def _on_items(
    source: Expression, refusal: int, made: Callable[[Scope, Iterable[Value]], Iterable[Value]]
) -> Expression:
    """An array out of the items of another; null stays null, and anything else is refused."""

    def evaluate(scope: Scope) -> Value:
        """The new array."""
        found = source(scope)
        if is_nullish(found):
            return NULL
        if found.kind != Kind.ARRAY:
            raise WriteRefusedError(refusal)
        return array(made(scope, items(found)))

    return evaluate


_FORMS: Mapping[bytes, Callable[[Value, _Names], Expression]] = {
    b"$literal": _literal,
    b"$cond": _cond,
    b"$switch": _switch,
    b"$let": _let,
    b"$map": _map,
    b"$filter": _filter,
}
