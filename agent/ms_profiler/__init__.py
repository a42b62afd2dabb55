"""Profile a training job that nobody edits.

The public names are resolved when they are first used: importing the package imports nothing else, not even `typing`
(3 ms), because it happens in every job.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ms_profiler.api.analyse import analyse

__version__ = "0.1.0"
__all__ = ["__version__", "analyse"]

#: public name -> the module that defines it
_MODULES = {"analyse": "ms_profiler.api.analyse"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__})
