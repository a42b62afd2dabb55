"""Ask Ray for the role of this process: the class of its actor, or the function of its task."""

import sys
from typing import Any


def describe() -> dict[str, str]:
    """Return "role" (class of the actor, or name of the function), "actor" (its id) and "name"; empty outside of Ray.

    This function calls Ray only if the job has imported Ray. No call waits for another process.
    """
    package, internal = sys.modules.get("ray"), sys.modules.get("ray._private.worker")
    if package is None or internal is None:
        return {}
    try:
        known: Any = internal
        if known.global_worker.mode != known.WORKER_MODE:
            return {}  # in the driver, the calls below would print a warning
        context = package.get_runtime_context()
        actor, name = context.get_actor_id(), context.get_actor_name()
        words = str(context.get_task_function_name() or "").split(".")
        role = words[-2] if actor and len(words) > 1 else words[-1]
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return {}  # another version of Ray: the result has no role
    return {key: str(value) for key, value in (("role", role), ("actor", actor), ("name", name)) if value}
