"""Describe each name of a framework as a script finds it. usage: namespaces.py torch|mindspore FILE

FILE receives a line of JSON for each name in each module and class of the framework: its path and facts about its
value. A value with several paths is described once, under the first path. The lines of its other paths contain the
first path.
"""

import copy
import importlib
import inspect
import json
import pickle
import re
import sys
import types
import warnings
import zlib

#: modules that scripts import, in addition to those that the framework imports itself
USUAL = {
    "torch": [
        "torch",
        "torch.utils.data",
        "torch.distributed",
        "torch.optim.lr_scheduler",
        "torch.nn.parallel",
        "torch.utils.checkpoint",
        "torch.amp",
        "torch.profiler",
        "torch.cuda.graphs",
        "torch.distributed.checkpoint.state_dict",
        "torch._dynamo",
    ],
    "mindspore": [
        "mindspore",
        "mindspore.dataset",
        "mindspore.nn",
        "mindspore.ops",
        "mindspore.train",
        "mindspore.communication",
        "mindspore.mint.distributed",
        "mindspore.profiler",
        "mindspore.experimental.optim",
    ],
}
#: attributes of functions and classes that scripts read
READ = ("__module__", "__name__", "__qualname__", "__doc__", "__defaults__", "__kwdefaults__", "__text_signature__")
PREDICATES = ("isclass", "isfunction", "isbuiltin", "ismethoddescriptor", "isroutine", "isgeneratorfunction")
ADDRESS = re.compile(r"0x[0-9a-f]+")
#: the text of a set, whose items come in the order of their addresses, which differs between processes
SET = re.compile(r"\{([^{}:]*)\}")


def outcome(call, *arguments):
    """Call a function; return its result as a text without addresses, or the name of the exception's class."""
    try:
        return SET.sub(in_order, ADDRESS.sub("ADDRESS", repr(call(*arguments))))[:200]
    except BaseException as reason:  # noqa: BLE001 - it is a fact, too
        return type(reason).__name__


def in_order(found):
    """Return the matched text of a set with its items in alphabetical order."""
    return f"{{{', '.join(sorted(found[1].split(', ')))}}}"


def facts(value):
    """Return facts about a class or a function that a script could depend on, by title."""
    found = {name: outcome(getattr, value, name) for name in READ}
    found["doc"] = str(hash_of(getattr(value, "__doc__", None)))
    found["signature"] = outcome(inspect.signature, value)
    found["asked"] = [name for name in PREDICATES if getattr(inspect, name)(value)]
    found["class"] = outcome(lambda: value.__class__)
    found["functions"] = isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType))
    found["bases"] = [kind.__name__ for kind in value.__mro__] if isinstance(value, type) else None
    found["names"] = sorted(name for name in names_of(value) if name != "__wrapped__")
    found["annotations"] = outcome(lambda: sorted(value.__annotations__))
    if not isinstance(value, type):  # for a class, Python would parse its whole file
        found["source"] = outcome(lambda: inspect.findsource(inspect.unwrap(value))[1])
    found["file"] = outcome(lambda: inspect.getsourcefile(inspect.unwrap(value)))
    found["pickled"] = outcome(lambda: pickle.loads(pickle.dumps(value)) is value)
    found["bytes"] = outcome(lambda: len(pickle.dumps(value)))
    found["copied"] = outcome(lambda: (copy.copy(value) is value, copy.deepcopy(value) is value))
    found["equal"] = outcome(lambda: (value == value, hash(value) == hash(value), bool(value)))
    found["repr"] = outcome(repr, value)
    return found


def hash_of(text):
    """Return a number for a documentation text, the same in all processes; for another value, its class's name."""
    if not isinstance(text, str):
        return type(text).__name__
    return zlib.crc32(ADDRESS.sub("ADDRESS", text).encode("utf-8", "replace"))


def names_of(value):
    """Return the names that `dir` lists; none if `dir` fails."""
    try:
        return dir(value)
    except Exception:  # noqa: BLE001 - lazy modules
        return []


def ours(name, framework):
    """Return whether a module, given by its name, belongs to the framework."""
    return name == framework or name.startswith(f"{framework}.")


def main(framework, path):
    """Write the descriptions of all names of a framework to a file."""
    warnings.simplefilter("ignore")
    for name in USUAL[framework]:
        importlib.import_module(name)
    seen, holders = {}, []
    modules = {name: module for name, module in sorted(sys.modules.items()) if ours(name, framework) and module}
    with open(path, "w") as stream:

        def write(place, content):
            stream.write(json.dumps([place, content], default=str) + "\n")

        write("modules", sorted(modules))
        for name, module in modules.items():
            loader = [type(getattr(holder, "loader" if holder else "", None)).__name__ for holder in [module.__spec__]]
            write(name, [type(module).__name__, loader, type(vars(module).get("__loader__")).__name__])
            holders.append((name, vars(module)))
        for name, held in holders:
            write(f"{name} names", sorted(key for key in held if not key.startswith("__")))
            for key, value in sorted(held.items()):
                place = f"{name}.{key}" if isinstance(held, dict) else f"{name}:{key}"
                if isinstance(value, types.ModuleType) or not (
                    inspect.isroutine(value) or inspect.isclass(value) or is_descriptor(value)
                ):
                    write(place, outcome(type, value))
                    continue
                plain = getattr(value, "__func__", value) if is_descriptor(value) else value
                if id(plain) in seen:
                    write(place, seen[id(plain)][0])
                    continue
                seen[id(plain)] = place, plain
                write(place, [type(value).__name__ if is_descriptor(value) else "", facts(plain)])
                if isinstance(value, type) and ours(str(vars(value).get("__module__")), framework):
                    holders.append((place, vars(value)))


def is_descriptor(value):
    """Return whether a value in a class's namespace is a static method or a class method."""
    return isinstance(value, (staticmethod, classmethod))


main(*sys.argv[1:])
