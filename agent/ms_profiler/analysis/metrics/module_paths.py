"""Paths of modules: attribute names from the outermost module on, joined by dots."""

from collections.abc import Iterable


def prefixes(module: str) -> list[str]:
    """Return the modules around a module, the outermost first, and the module itself."""
    parts = module.split(".") if module else []
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def inside(module: str, outer: str) -> bool:
    """Return whether a module is the module `outer` or inside it; an empty `outer` contains all modules."""
    return not outer or module == outer or module.startswith(f"{outer}.")


def common(modules: Iterable[str]) -> str | None:
    """Return the innermost module around all given modules; None without modules."""
    shared: list[str] | None = None
    for module in modules:
        parts = module.split(".") if module else []
        if shared is None:
            shared = parts
            continue
        count = 0
        while count < min(len(parts), len(shared)) and parts[count] == shared[count]:
            count += 1
        shared = shared[:count]
    return None if shared is None else ".".join(shared)
