"""Read the types and attributes of a job's objects without calling methods that the script may override.

`isinstance(x, ...)` reads `x.__class__`, which a script may define as a property. `issubclass(type(x), ...)` does not.
"""

import sys
from collections.abc import Iterator
from types import MethodType
from typing import Any

_NAME = type.__dict__["__name__"].__get__
_MRO = type.__dict__["__mro__"].__get__
_DICT = type.__dict__["__dict__"].__get__


def attributes(item: Any) -> dict[str, Any]:
    """Return the `__dict__` of an object; an empty dictionary if the object has none."""
    try:
        found = object.__getattribute__(item, "__dict__")
    except AttributeError:  # the class of the object uses __slots__, so there is no `__dict__`
        return {}
    return found if issubclass(type(found), dict) else {}


def function_of(item: Any) -> Any:
    """Return the function behind a bound method; any other object unchanged."""
    return item.__func__ if type(item) is MethodType else item


def held_in(item: Any, name: str) -> dict[Any, Any]:
    """Return a copy of a table of a module or cell, such as its parameters; an empty dictionary if it has none.

    The modules that `torch.jit.script` makes hold their tables in classes of PyTorch, and those that `torch.jit.trace`
    makes hold such a module. Reading these runs no code of the script.

    Args:
        item: the module or cell.
        name: the attribute that holds the table.
    """
    own = attributes(item)
    held: Any = attributes(own.get("_actual_script_module", item)).get(name)
    if issubclass(type(held), dict):
        return dict.copy(held)  # without the hashes and comparisons of the keys, whose class may be of the script
    scripted = vars(sys.modules["torch.jit._script"]) if "torch.jit._script" in sys.modules else {}
    inside = attributes(held)
    if type(held) is scripted.get("OrderedModuleDict"):
        return dict(inside["_python_modules"])
    return dict(inside["_c"].items()) if type(held) is scripted.get("OrderedDictWrapper") else {}


def children(item: Any, table: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the object of each child of a module (PyTorch) or cell (MindSpore).

    Args:
        item: the module or cell.
        table: the attribute that holds its children, "_modules" or "_cells".
    """
    for name, inner in held_in(item, table).items():
        if inner is not None and type(name) is str:
            yield name, inner


def held(item: Any, name: str, table: str) -> Any:
    """Return an attribute or a child of a module or cell; None if it has none of that name.

    Args:
        item: the module or cell.
        name: the name of the attribute or child.
        table: the attribute that holds the children, "_modules" or "_cells".
    """
    found = dict.get(attributes(item), name)
    return dict(children(item, table)).get(name) if found is None else found


def name(kind: type) -> str:
    """Return the name of a class, bypassing its metaclass."""
    return str(_NAME(kind))


def kind_name(item: Any) -> str:
    """Return the name of the class of an object."""
    return name(type(item))


def class_name(module: Any) -> str:
    """Return the name of the class of a module or cell; of a scripted or traced module, the class it was made from.

    `torch.jit.script` and `torch.jit.trace` make modules of classes of PyTorch. These keep the name of the original
    class, see `torch/jit/_script.py` and `torch/jit/_trace.py`.
    """
    for loaded, kind in (("torch.jit._script", "RecursiveScriptModule"), ("torch.jit._trace", "TracedModule")):
        made = vars(sys.modules[loaded]).get(kind) if loaded in sys.modules else None
        if made is not None and issubclass(type(module), made):
            own = attributes(module)
            found = own["_c"]._type().name() if "_c" in own else own.get("_name")
            return found if type(found) is str else kind_name(module)
    return kind_name(module)


def mro(kind: type) -> tuple[type, ...]:
    """Return a class and its base classes in their order of inheritance."""
    found: tuple[type, ...] = _MRO(kind)
    return found


def members(kind: type) -> dict[str, Any]:
    """Return the attributes that a class itself defines, without those of its base classes."""
    found: dict[str, Any] = _DICT(kind)
    return found


def member(kind: type, name: str) -> Any:
    """Return an attribute that a class defines or inherits, not bound to an object; None if the class has none."""
    return next((members(base)[name] for base in mro(kind) if name in members(base)), None)


def walk(root: Any, table: str) -> Iterator[tuple[str, Any]]:
    """Yield path and object of each module or cell in a tree of modules, each object once.

    A module comes before the modules in it. The root comes first, with the path "".

    Args:
        root: the outermost module or cell.
        table: the attribute of a module that holds its children, "_modules" or "_cells".
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
