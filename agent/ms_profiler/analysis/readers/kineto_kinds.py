"""Map the categories of Kineto's events to kinds, for all versions of PyTorch and all vendors.

Kineto lists its categories in `ActivityType.h` of github.com/pytorch/kineto. In 2021 their names began with capitals
(`Kernel`, `Operator`, `Runtime`). If an event of an unknown category ran on a device, it is only counted, and the
result reports the count. Any other event of an unknown category counts as a host event.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.readers import trace_events

KERNEL: Final = "kernel"
COPY: Final = "copy"
SET: Final = "set"
RUNTIME: Final = "runtime"
SYNC: Final = "sync"
OPERATOR: Final = "operator"
ANNOTATION: Final = "annotation"
MARK: Final = "mark"
PYTHON: Final = "python"
#: kind of events that duplicate other events, or describe no work
PASSED: Final = "passed"
#: kind of host events without a category or with an unknown one
HOST: Final = "host"
#: kind of device events with an unknown category
UNKNOWN: Final = "unknown"

#: category of calls of a device's runtime or driver -> the device, and the level of the calls in `DRIVER_CALLS`
RUNTIMES: Final = {
    "runtime": ("GPU", "cuda"),
    "cuda_runtime": ("GPU", "cuda"),
    "cuda_driver": ("GPU", "cuda"),
    "hip_runtime": ("GPU", "hip"),
    "hip_driver": ("GPU", "hip"),
    "xpu_runtime": ("XPU", "xpu"),
    "xpu_driver": ("XPU", "xpu"),
    "mtia_runtime": ("MTIA", "mtia"),
    "hpu_op": ("HPU", "hpu"),
    "glow_runtime": ("GLOW", "glow"),
    "privateuse1_runtime": ("DEVICE", "runtime"),
    "privateuse1_driver": ("DEVICE", "driver"),
}
_KINDS: Final = {
    **dict.fromkeys(("kernel", "mtia_ccp_events"), KERNEL),
    **dict.fromkeys(("gpu_memcpy", "memcpy"), COPY),
    **dict.fromkeys(("gpu_memset", "memset"), SET),
    **dict.fromkeys(RUNTIMES, RUNTIME),
    **dict.fromkeys(("cuda_sync", "xpu_sync"), SYNC),
    **dict.fromkeys(("cpu_op", "operator"), OPERATOR),
    "user_annotation": ANNOTATION,
    "gpu_user_annotation": MARK,
    **dict.fromkeys(("python_function", "pythonfunction"), PYTHON),
    **dict.fromkeys(("trace", "overhead", "ac2g", "fwdbwd", "external_correlation", "cuda_event"), PASSED),
    "cuda_profiler_range": PASSED,
}
#: category of events that occurs on only one kind of device -> this kind of device
_DEVICES: Final = {"mtia_ccp_events": "MTIA", "xpu_sync": "XPU"}
_UNNAMED_DEVICE: Final = "DEVICE"
_HOST_LABELS: Final = ("", "CPU")


def added(events: trace_events.Events) -> pl.DataFrame:
    """Return the spans of a trace with their kind as the column `kind`.

    Args:
        events: the events of the trace, with the arguments `stream` and `device`.
    """
    lower = pl.col("category").str.to_lowercase()
    labels = events.labels
    # the host's process, such as "python3.10", may have a label as well: "CPU"
    devices = [pid for pid, label in labels.items() if label.split(" ")[0] not in _HOST_LABELS]
    spans = events.spans.with_columns(
        lower.replace_strict(_KINDS, default=None, return_dtype=pl.String).alias("kind"),
    )
    if not spans["kind"].has_nulls():
        return spans
    on_device = events.arguments(spans, "stream").is_not_null() | spans["pid"].is_in(devices)
    other = pl.when(pl.lit(on_device)).then(pl.lit(UNKNOWN)).otherwise(pl.lit(HOST))
    return spans.with_columns(pl.coalesce("kind", other))


def unknown(spans: pl.DataFrame) -> list[dict[str, str]]:
    """Return remarks about device events of an unknown category, for `not_collected` of the run's record.

    Args:
        spans: the spans of a trace with their kinds, from `added`.
    """
    counts = spans.filter(pl.col("kind") == UNKNOWN).group_by("category").len().sort("category")
    return [
        {
            "what": f"{count} events {f'of the category {category}' if category else 'without a category'} on a device",
            "why": "the meaning of this category is unknown; the figures of the device leave its events out",
        }
        for category, count in counts.iter_rows()
    ]


def device(spans: pl.DataFrame, labels: dict[str, str]) -> str:
    """Return the kind of device on which the kernels ran: GPU, XPU, MTIA, HPU, or the label of the kernels' process.

    Args:
        spans: the spans of a trace with their kinds, from `added`.
        labels: pid -> the label of the process.
    """
    categories = spans["category"].unique().str.to_lowercase().to_list()
    own = [name for category, name in _DEVICES.items() if category in categories]
    called = {RUNTIMES[category][0] for category in categories if category in RUNTIMES}
    # a trace of another device may also contain calls of CUDA, so the other device has priority. A trace of a GPU has
    # no calls of other devices
    other = own + sorted(called - {"GPU"})
    found = other[0] if other else "GPU"
    if found != _UNNAMED_DEVICE:
        return found
    pids = spans.filter(pl.col("kind") == KERNEL)["pid"].unique()
    kinds_of_devices = sorted({labels[pid].split(" ")[0] for pid in pids if labels.get(pid)})
    return kinds_of_devices[0].upper() if kinds_of_devices else _UNNAMED_DEVICE
