"""Describe each name of a framework as a script finds it. usage: namespaces.py torch|mindspore FILE

FILE receives a line of JSON for each name of each module, and of each class: its path and facts about its value. A
value is described once, under the first of its paths; the others name that one.
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

#: modules that scripts import, beside those that the framework imports itself
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
ASKED = ("isclass", "isfunction", "isbuiltin", "ismethoddescriptor", "isroutine", "isgeneratorfunction")
ADDRESS = re.compile(r"0x[0-9a-f]+")


def told(call, *arguments):
    """Return the text of what a function answers, or the class of what it raises."""
    try:
        return ADDRESS.sub("ADDRESS", repr(call(*arguments)))[:200]
    except BaseException as reason:  # noqa: BLE001 - it is a fact, too
        return type(reason).__name__


def facts(value):
    """Return facts about a class or a function."""
    found = {name: told(getattr, value, name) for name in READ}
    found["doc"] = str(hash_of(getattr(value, "__doc__", None)))
    found["signature"] = told(inspect.signature, value)
    found["asked"] = [name for name in ASKED if getattr(inspect, name)(value)]
    found["class"] = told(lambda: value.__class__)
    found["functions"] = isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType))
    found["bases"] = [kind.__name__ for kind in value.__mro__] if isinstance(value, type) else None
    found["names"] = sorted(name for name in told_names(value) if name != "__wrapped__")
    found["annotations"] = told(lambda: sorted(value.__annotations__))
    if not isinstance(value, type):  # Python parses the whole file of a class
        found["source"] = told(lambda: inspect.findsource(inspect.unwrap(value))[1])
    found["file"] = told(lambda: inspect.getsourcefile(inspect.unwrap(value)))
    found["pickled"] = told(lambda: pickle.loads(pickle.dumps(value)) is value)
    found["bytes"] = told(lambda: len(pickle.dumps(value)))
    found["copied"] = told(lambda: (copy.copy(value) is value, copy.deepcopy(value) is value))
    found["equal"] = told(lambda: (value == value, hash(value) == hash(value), bool(value)))
    found["repr"] = told(repr, value)
    return found


def hash_of(text):
    """Return a number that is the same for equal documentation in all processes."""
    if not isinstance(text, str):
        return type(text).__name__
    return zlib.crc32(ADDRESS.sub("ADDRESS", text).encode("utf-8", "replace"))


def told_names(value):
    """Return what `dir` tells."""
    try:
        return dir(value)
    except Exception:  # noqa: BLE001 - lazy modules
        return []


def ours(name, framework):
    """Return whether a module is of the framework."""
    return name == framework or name.startswith(f"{framework}.")


def main(framework, path):
    """Describe all names."""
    warnings.simplefilter("ignore")
    for name in USUAL[framework]:
        importlib.import_module(name)
    seen, holders = {}, []
    modules = {name: module for name, module in sorted(sys.modules.items()) if ours(name, framework) and module}
    with open(path, "w") as stream:

        def tell(place, content):
            stream.write(json.dumps([place, content], default=str) + "\n")

        tell("modules", sorted(modules))
        for name, module in modules.items():
            loader = [type(getattr(holder, "loader" if holder else "", None)).__name__ for holder in [module.__spec__]]
            tell(name, [type(module).__name__, loader, type(vars(module).get("__loader__")).__name__])
            holders.append((name, vars(module)))
        for name, held in holders:
            tell(f"{name} names", sorted(key for key in held if not key.startswith("__")))
            for key, value in sorted(held.items()):
                place = f"{name}.{key}" if isinstance(held, dict) else f"{name}:{key}"
                if isinstance(value, types.ModuleType) or not (
                    inspect.isroutine(value) or inspect.isclass(value) or is_descriptor(value)
                ):
                    tell(place, told(type, value))
                    continue
                plain = getattr(value, "__func__", value) if is_descriptor(value) else value
                if id(plain) in seen:
                    tell(place, seen[id(plain)][0])
                    continue
                seen[id(plain)] = place, plain
                tell(place, [type(value).__name__ if is_descriptor(value) else "", facts(plain)])
                if isinstance(value, type) and ours(str(vars(value).get("__module__")), framework):
                    holders.append((place, vars(value)))


def is_descriptor(value):
    """Return whether a value of a class stands for a function."""
    return isinstance(value, (staticmethod, classmethod))


main(*sys.argv[1:])
