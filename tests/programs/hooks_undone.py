"""Hook MindSpore after its import; print how many attributes differ, undo the hooks, and print each difference."""

import json
import os
import sys

import mindspore  # noqa: F401 - before us


def attributes():
    """Return the attributes of every module and class of MindSpore, by the name of the module or class."""
    found = {}
    for name, module in list(sys.modules.items()):
        if module is None or name.partition(".")[0] != "mindspore":
            continue
        found[name] = dict(vars(module))
        for key, value in vars(module).items():
            if isinstance(value, type) and str(getattr(value, "__module__", "")).startswith("mindspore"):
                found[f"{value.__module__}.{key}"] = dict(vars(value))
    return found


def differences(before, after):
    """Return (owner, name) of each attribute that was replaced, removed or added, except `__warningregistry__`."""
    return [
        (owner, key)
        for owner, names in before.items()
        for key in names.keys() | after.get(owner, {}).keys()
        if names.get(key) is not after.get(owner, {}).get(key) and key != "__warningregistry__"
    ]


before = attributes()
options = {"start": True, "quiet": True, "analyse": "off", "output_path": sys.argv[1]}
os.environ["MS_PROFILER_OPTIONS"] = json.dumps(options)

from ms_profiler.job import bootstrap, collection  # noqa: E402

bootstrap.activate()
(plugin,) = collection.current().hooks.plugins
print(len(differences(before, attributes())))
plugin.undo()
print(differences(before, attributes()))
