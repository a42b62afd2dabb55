"""Read the contents of a module or cell without running code of the script: no method that it may override is
called."""

from collections.abc import Iterator
from typing import Any

_NAME = type.__dict__["__name__"].__get__


def attributes(item: Any) -> dict[str, Any]:
    """Return the attributes that an object keeps in its dictionary."""
    try:
        found = object.__getattribute__(item, "__dict__")
    except AttributeError:  # a class with __slots__ alone
        return {}
    return found if isinstance(found, dict) else {}


def children(item: Any, table: str) -> Iterator[tuple[str, Any]]:
    """Give the children of a module or cell and their names.

    Args:
        item: the module or cell.
        table: the attribute that holds its children, "_modules" or "_cells".
    """
    held = attributes(item).get(table)
    if isinstance(held, dict):
        for name, inner in list(dict.items(held)):
            if inner is not None and type(name) is str:
                yield name, inner


def held(item: Any, name: str, table: str) -> Any:
    """Return an attribute or a child of a module or cell; None if it has none of that name.

    Args:
        item: the module or cell.
        name: of the attribute.
        table: as for `children`.
    """
    found = dict.get(attributes(item), name)
    return dict(children(item, table)).get(name) if found is None else found


def name(kind: type) -> str:
    """Return the name of a class, bypassing its metaclass."""
    return str(_NAME(kind))


def kind_name(item: Any) -> str:
    """Return the name of the class of an object."""
    return name(type(item))


def walk(root: Any, table: str) -> Iterator[tuple[str, Any]]:
    """Give a module or cell and all below it once, each with its path, "" for the first; an outer one before its inner.

    Args:
        root: the outermost.
        table: as for `children`.
    """
    seen = {id(root)}
    waiting = [("", root)]
    while waiting:
        path, item = waiting.pop()
        yield path, item
        below = []
        for name, inner in children(item, table):
            if id(inner) not in seen:
                below.append((f"{path}.{name}" if path else name, inner))
        waiting += reversed(below)
        seen |= {id(inner) for _, inner in below}
