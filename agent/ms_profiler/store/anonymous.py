"""Replace the names of a job, as the option `anonymize` requests.

The replacement of a word is "m" and digits of a keyed hash. A word has the same replacement in every file and process
of a machine until the machine starts again, because the key comes from the boot id. With this option, no file contains
the boot id, so that nobody can compute the key.

Three kinds of words stay: words of ms-profiler's own labels, names of the frameworks' classes and operators, and
numbers. The analysis needs them, and they say nothing about the job.
"""

import functools
import hashlib
import posix
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any, Final

from ms_profiler import paths
from ms_profiler.option_types import Text, Texts
from ms_profiler.options import OPTIONS
from ms_profiler.store import alive
from ms_profiler.store.run_info import ProcessInfo, RunInfo

#: number of digits in a replacement
DIGITS: Final = 10
_WORD: Final = re.compile(r"[^\W\d]\w*")
_OURS: Final = re.compile(rf"m[0-9a-f]{{{DIGITS}}}")
#: matches the names of operators and of autograd's nodes that PyTorch itself defines
_OPERATOR: Final = re.compile(r"(aten|prims?|c10d?|_c10d_functional)::[\w.:]+|[A-Z]\w*Backward\d+|AccumulateGrad")
#: packages whose names of classes stay, and the modules that define these classes
_FRAMEWORKS: Final = ("torch", "mindspore")
_PUBLIC: Final = (
    *("torch", "torch.nn", "torch.optim", "torch.optim.lr_scheduler", "torch.utils.data", "torch.nn.parallel"),
    *("mindspore", "mindspore.nn", "mindspore.ops", "mindspore.ops.operations", "mindspore.dataset"),
)
_PACKAGE: Final = paths.dirname(paths.dirname(paths.abspath(__file__)))
#: parts of ms-profiler's package that contain the labels of its records; the words in these labels stay
_LABELS: Final = ("job/frameworks", "job/samplers", "job/devices", "job/steps.py", "store")
#: fields of `run_info.json` whose texts stay, because they say nothing about the job or readers need them unchanged
_PLAIN: Final = frozenset(
    ("product_version", "python", "machine", "framework", "steps", "window", "cost", "options", "before")
)


@functools.cache
def key() -> bytes:
    """Return the key of the hash: 16 bytes, the same in all processes until the machine starts again.

    If the machine has no boot id, the bytes are random.
    """
    secret = alive.boot_id().encode() or posix.urandom(16)
    return hashlib.blake2b(secret, digest_size=16, person=b"ms-profiler").digest()


@functools.cache
def word(text: str) -> str:
    """Return the replacement of a whole text, such as the name of a host; an empty text stays empty."""
    if not text or _OURS.fullmatch(text):
        return text
    data = text.encode("utf-8", "surrogatepass")
    return "m" + hashlib.blake2b(data, key=key(), digest_size=DIGITS // 2).hexdigest()


def label(text: str) -> str:
    """Replace every word of the job in the label of a record.

    Args:
        text: the label, such as "encoder.layer.0", "compile Net.forward" or "aten::mm".
    """
    return _hidden(text, _LABELS, _loaded())


def message(text: str) -> str:
    """Replace the words of the job in a message: all words that do not occur in ms-profiler's own texts."""
    return _hidden(text, ("",), _loaded())


def content(value: Any, replace: Callable[[str], str] = label) -> Any:
    """Return a JSON value in which every text is replaced, keys included.

    Args:
        value: the content of one of ms-profiler's files.
        replace: a function that returns the replacement of a text.
    """
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, (list, tuple)):
        return [content(item, replace) for item in value]
    if isinstance(value, dict):
        return {content(name, replace): content(item, replace) for name, item in value.items()}
    return value


def record(info: RunInfo | ProcessInfo) -> dict[str, Any]:
    """Return the content of `run_info.json` or `process_info.json`, with the names of the job replaced.

    Args:
        info: the content with all names.
    """
    fields = asdict(info)
    for name, value in fields.items():
        if name == "hooks":
            fields[name] = {target: content(state, message) for target, state in value.items()}
        elif name not in _PLAIN:
            fields[name] = content(value, label if name in ("metadata", "name") else message)
    for name, value in fields.get("options", {}).items():
        if isinstance(OPTIONS[name].kind, (Text, Texts)):
            fields["options"][name] = content(value, word)
    return fields


@functools.lru_cache(1 << 14)
def _hidden(text: str, parts: tuple[str, ...], loaded: tuple[str, ...]) -> str:
    if _OPERATOR.fullmatch(text):
        return text
    known = _known(parts, loaded)

    def replaced(match: re.Match[str]) -> str:
        found = match[0]
        return found if found in known or _OPERATOR.fullmatch(found) else word(found)

    return _WORD.sub(replaced, text)


def _loaded() -> tuple[str, ...]:
    return tuple(name for name in _PUBLIC if name in sys.modules)


@functools.cache
def _known(parts: tuple[str, ...], loaded: tuple[str, ...]) -> frozenset[str]:
    """Return the words that `label` and `message` do not replace.

    Args:
        parts: folders and files of ms-profiler's package; words in their texts stay.
        loaded: modules of the frameworks that are imported; names of their classes stay.
    """
    found = set(_classes(loaded))
    for part in parts:
        for path in _files(paths.join(_PACKAGE, part)):
            for text in _texts(SourceFileLoader("ms_profiler", path).get_code("ms_profiler")):
                found.update(_WORD.findall(text))
    return frozenset(found)


def _files(path: str) -> Iterator[str]:
    if paths.isfile(path):
        yield path
    for folder, names in paths.files(path):
        yield from (paths.join(folder, name) for name in names if name.endswith(".py"))


def _classes(loaded: tuple[str, ...]) -> Iterator[str]:
    for name in loaded:
        for attribute, value in list(vars(sys.modules[name]).items()):
            if isinstance(value, type) and str(value.__module__).partition(".")[0] in _FRAMEWORKS:
                yield attribute


def _texts(code: CodeType | None) -> Iterator[str]:
    """Yield the string constants of code, except docstrings: a string that ends with a full stop counts as one."""
    waiting: list[Any] = [code]
    while waiting:
        item = waiting.pop()
        if isinstance(item, CodeType):
            waiting += item.co_consts
        elif isinstance(item, (tuple, frozenset)):
            waiting += item
        elif isinstance(item, str) and not item.rstrip().endswith("."):
            yield item
