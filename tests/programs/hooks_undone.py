"""Hook MindSpore after its import, undo the hooks, and print every difference; then the number of hooks."""

import json
import os
import sys

import mindspore  # noqa: F401 - before us


def attributes():
    """Return every attribute of every module and class of MindSpore, by owner."""
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
    """Return what is not the same object, was removed or added; `__warningregistry__` and the like come and go."""
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
