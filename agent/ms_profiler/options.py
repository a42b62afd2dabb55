"""The options in `MS_PROFILER_OPTIONS`: each is declared once, with its kind, default, description and old names.

The functions that read options never raise and never print. They return a line for each error, which the caller prints.
Names, old names and meanings come from MindSpore's public profiler documents. ms-profiler has some options of its own.
"""

import json
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

from ms_profiler.option_types import (
    LEVELS,
    METRICS,
    SHOWN,
    Bool,
    BoolOr,
    Choice,
    Choices,
    Count,
    Kind,
    Number,
    Ranks,
    Size,
    StepPlan,
    Text,
    Texts,
    shown,
)

#: Largest number of lines about errors in MS_PROFILER_OPTIONS. If there are more errors, one more line counts them.
MOST_MESSAGES = 20

ASCEND = "only an Ascend NPU has it"
REPLACED = "accepted for old scripts; replaced by {}"


@dataclass(frozen=True)
class Option:
    """The declaration of one option.

    Attributes:
        name: the key of the option in the JSON object MS_PROFILER_OPTIONS.
        kind: the allowed values.
        default: the value if the key is absent or its value is not allowed.
        text: the effect of the option, for the table of options.
        aliases: older names of the option.
        inert: why the option has no effect on a machine without an accelerator; empty if it has an effect there.
    """

    name: str
    kind: Kind
    default: Any
    text: str
    aliases: tuple[str, ...]
    inert: str


def _option(default: Any, kind: Kind, text: str, *aliases: str, inert: str = "") -> Any:
    return field(default=default, metadata={"declared": (kind, text, aliases, inert)})


@dataclass(frozen=True)
class Options:
    """The values of all options, with defaults filled in. Sizes are in bytes, times in seconds."""

    start: bool = _option(
        False,
        Bool(),
        'Start the profiler. As in MindSpore, 1, "1", "yes" and "on" also start it; then a line says so.',
    )
    output_path: str = _option(
        "./data",
        Text("a path"),
        "Directory that receives one `*_ascend_ms` directory per rank. If it is not writable, the temporary directory "
        "receives them. `~` is expanded; a symbolic link is refused.",
    )
    start_profile: bool = _option(
        True,
        Bool(),
        "Accepted because MindSpore's profiler accepts it.",
        inert="recording begins at once in any case",
    )
    activities: tuple[str, ...] = _option(
        ("CPU", "NPU"),
        Choices("CPU", "NPU", "GPU"),
        "Sources of records: CPU for the framework, NPU and GPU for devices. Default: all that the machine has.",
    )
    profiler_level: str = _option(
        "Level0",
        LEVELS,
        "Depth of device records. The numbers -1, 0, 1, 2 mean the same levels. LevelNone needs `mstx`.",
        inert="levels describe device records",
    )
    aic_metrics: str = _option(
        "None",
        METRICS,
        "AI Core counters, from Level1 on. The old name sets Level1 if no level is given, and takes numbers: "
        "0 ArithmeticUtilization, 1 PipeUtilization, 2 Memory, 3 MemoryL0, 4 ResourceConflictRatio, 5 MemoryUB, "
        "6 L2Cache, -1 none.",
        "aicore_metrics",
        inert=ASCEND,
    )
    export_type: tuple[str, ...] = _option(
        ("text",),
        Choices("text", "db", "kineto"),
        "Forms of the result. text: files, always written. db: a database, which msprof-analyze reads in place of the "
        "files. kineto: the timeline in the form of PyTorch's Kineto, for Holistic Trace Analysis, in `KINETO`.",
    )
    data_simplification: bool = _option(True, Bool(), "Remove intermediate files after the analysis; the store stays.")
    profile_memory: bool = _option(
        False,
        Bool(),
        "Memory of tensors after each allocation and release by the framework; needs activity CPU. On a CPU, MindSpore "
        "keeps the records in memory until the end, 40 bytes each; with PyTorch, each block of 1,024 bytes or more has "
        "a record. On an NPU, also memory copies and sets, if `ms-profiler run` starts the job.",
        "memory",
    )
    record_shapes: bool = _option(False, Bool(), "Shapes of inputs, for PyTorch in three steps; needs activity CPU.")
    with_stack: bool | str = _option(
        False,
        BoolOr("sample"),
        'Python stacks. true: trace every call of a function. "sample": sample the stacks of all threads `stack_rate` '
        "times a second, at low cost. Beside a debugger or another profiler, true samples as well.",
        "host_stack",
    )
    data_process: bool = _option(
        False,
        Bool(),
        "What makes batches slow. Waits for data are recorded without this option. MindSpore: queues and "
        "processor time of the operators of one dataset pipeline at a time, for 50 ms of processor time a second. "
        "PyTorch: stacks of a loader's workers, `stack_rate` times a second. Has no effect with a `schedule`.",
    )
    parallel_strategy: bool = _option(False, Bool(), "Device meshes, and groups of ranks, as JSON.")
    l2_cache: bool = _option(False, Bool(), "Hits and misses of the L2 cache.", inert=ASCEND)
    hbm_ddr: bool = _option(False, Bool(), "Bandwidth of device memory.", inert=ASCEND)
    pcie: bool = _option(False, Bool(), "Bandwidth of PCIe; newer name: `sys_interconnection`.", inert=ASCEND)
    sys_io: bool = _option(False, Bool(), "Network cards and RoCE.", inert=ASCEND)
    sys_interconnection: bool = _option(False, Bool(), "PCIe, HCCS and chip-to-chip links.", inert=ASCEND)
    host_sys: tuple[str, ...] = _option(
        (),
        Choices("cpu", "mem", "disk", "network", "osrt", empty=True),
        "Further counters of the host. cpu: threads and processors; mem: proportional memory; disk: disks; network: "
        "network cards; osrt: system calls, on an NPU only. On an NPU, also the counters of CANN.",
    )
    mstx: bool = _option(
        False,
        Bool(),
        "Markers of `mindspore.profiler.mstx` on the device, and markers of MindSpore's own code.",
        inert="the script's markers are recorded in any case",
    )
    mstx_domain_include: tuple[str, ...] = _option((), Texts(), "Only markers of these domains; needs `mstx`.")
    mstx_domain_exclude: tuple[str, ...] = _option((), Texts(), "All markers but those of these domains; needs `mstx`.")
    sync_enable: bool = _option(True, Bool(), "Wait for each GPU kernel, to time it.", inert="only a GPU has it")
    profile_communication: bool = _option(
        False, Bool(), "Communication between devices.", "hccl", inert=REPLACED.format("profiler_level")
    )
    op_time: bool = _option(True, Bool(), "Time operators.", inert=REPLACED.format("activities"))
    profile_framework: str = _option(
        "all",
        Choice("all", "time", "memory", "none", spellings={None: "none"}),
        "Events of the framework on the host.",
        inert=REPLACED.format("activities"),
    )
    timeline_limit: int = _option(
        500, Count(1, "megabytes"), "Largest timeline file.", "timeline_limit_size", inert=REPLACED.format("max_disk")
    )

    cuda_graphs: str = _option(
        "nodes", Choice("nodes", "launches"), "Records of CUDA graphs: each kernel (nodes), or each launch (launches)."
    )
    stack_c_calls: bool = _option(False, Bool(), "Also trace calls of functions written in C.")
    stack_include: tuple[str, ...] = _option((), Texts(), "Trace only files whose path contains one of these texts.")
    stack_exclude: tuple[str, ...] = _option((), Texts(), "Trace no files whose path contains one of these texts.")
    stack_min_us: float = _option(0.0, Number(0, 1e9, "microseconds"), "Record no traced calls shorter than this.")
    stack_depth: int = _option(0, Count(0, "calls"), "Trace this many nested calls and none deeper; 0: all.")
    stack_rate: float = _option(100.0, Number(1, 1000, "samples a second"), "Rate of the samples of `with_stack`.")
    host_rate: float = _option(10.0, Number(0, 100, "samples a second"), "Rate of the host's counters; 0: none.")
    schedule: dict[str, int] | None = _option(  # noqa: RUF009 - it returns a field
        None, StepPlan(), "Steps to record, with the meaning of `mindspore.profiler.schedule`. Default: every step."
    )
    ranks: str = _option("all", Ranks(), "Ranks to record.")
    analyse: str = _option(
        "sync",
        Choice("sync", "async", "off"),
        "Analysis at the end of the job. sync: the job waits for it. async: it runs in the background. off: none.",
    )
    exit_timeout: float = _option(
        60.0,
        Number(0, 86400, "seconds"),
        "Longest wait for the analysis at the end of the job; a longer analysis continues in the background.",
    )
    collect: str | None = _option(
        None, Text("a path or address", absent=True), "Directory or store that gets a copy of the result after the job."
    )
    takeover: bool = _option(True, Bool(), "Record in place of MindSpore's own profiler; false lets MindSpore's start.")
    max_disk: int = _option(
        5 * 10**9, Size(10**6), "Limit of the disk space of a result; never more than a tenth of the free space."
    )
    max_memory: int = _option(
        256 * 10**6,
        Size(10**6),
        "Limit of the memory that records take in a process. Above three quarters of it, modules and operators are "
        "dropped and counted. Buffers of a GPU come on top: up to half of the limit, at least 8 MB.",
    )
    overhead_budget: float = _option(
        0.05,
        Number(0, 1, "a share"),
        "Share of the time that recording may cost. If recording all costs more, only some steps are recorded. 0: all.",
    )
    op_flush: int = _option(100_000, Count(1, "kernels"), "Kernels after which MindSpore's buffer is emptied.")
    dynamic: str | None = _option(
        None,
        Text("a path", absent=True),
        "JSON file that names the steps to record; other steps are not recorded. Its keys are `start_step` and "
        "`stop_step`, counted from 1, others of MindSpore's `DynamicProfilerMonitor`, and any of these options. It is "
        "made if missing, may change while the job runs, and is checked between steps.",
    )
    control: bool = _option(
        False, Bool(), "Listen to `ms-profiler` commands while the job runs.", inert="this version listens to none"
    )
    quiet: bool = _option(False, Bool(), "Leave out the lines at start and end; they stay in the run's record.")
    anonymize: bool = _option(False, Bool(), "Replace paths, the host's name, and names in the job's own code.")
    report: bool = _option(False, Bool(), "Also write `report.html`, a page to look at, with the analysis.")

    #: names of the options that the user has set to an allowed value
    given: frozenset[str] = frozenset()

    def as_dict(self) -> dict[str, Any]:
        """Return the resolved options by name, for JSON."""
        values = {name: getattr(self, name) for name in OPTIONS}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _declaration(item: "Field[Any]") -> Option:
    kind, text, aliases, inert = item.metadata["declared"]
    return Option(item.name, kind, item.default, text, aliases, inert)


#: Every option by name, in the order of the table in docs/options.md.
OPTIONS: dict[str, Option] = {item.name: _declaration(item) for item in fields(Options) if item.metadata}
_ALIASES = {alias: option for option in OPTIONS.values() for alias in option.aliases}


@dataclass(frozen=True)
class Parsed:
    """The content of the environment variable MS_PROFILER_OPTIONS.

    Attributes:
        options: the resolved options; None if profiling is off.
        messages: one line for each error in the content.
        takeover: whether ms-profiler keeps MindSpore's own profiler from starting. It counts also if profiling is off.
    """

    options: Options | None
    messages: list[str]
    takeover: bool = True


def parse(text: str | None) -> Parsed:
    """Return the options in the text of MS_PROFILER_OPTIONS, and a line for each error in it.

    Args:
        text: the content of the variable; None or "" if it is not set.
    """
    if not text:
        return Parsed(None, [])
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as reason:
        # RecursionError: thousands of nested brackets. ValueError: no JSON, or a number with too many digits.
        return Parsed(None, [f"MS_PROFILER_OPTIONS is not JSON ({shown(str(reason), quote=False)}): profiling is off"])
    if not isinstance(content, dict):
        example = '{"start": true}'
        why = f"MS_PROFILER_OPTIONS is {shown(content)}, not an object like {example}: profiling is off"
        return Parsed(None, [why])
    options, messages = _resolve_all(content)
    if options.start:
        options = _consistent(options, "aicore_metrics" in content, messages)
    elif "start" in options.given:
        messages = []  # the user switched profiling off, so errors in other options do not matter
    if len(messages) > MOST_MESSAGES:
        messages[MOST_MESSAGES:] = [f"MS_PROFILER_OPTIONS: {len(messages) - MOST_MESSAGES} more such lines left out"]
    return Parsed(options if options.start else None, messages, options.takeover)


def resolve(content: dict[str, Any]) -> tuple[Options, list[str]]:
    """Return the options in the keyword arguments of a script's profiler, and a line for each error in them.

    Args:
        content: values by option name, as in MS_PROFILER_OPTIONS; an option with its default value counts as not set.
    """
    given = {key: value for key, value in content.items() if not _is_default(key, value)}
    options, messages = _resolve_all(given | {"start": True})
    return _consistent(options, "aicore_metrics" in given, messages), messages


def _is_default(key: str, value: Any) -> bool:
    option = OPTIONS.get(key) or _ALIASES.get(key)
    try:
        return option is not None and bool(option.default == (tuple(value) if isinstance(value, list) else value))
    except (TypeError, ValueError):  # of an array of NumPy
        return False


def _resolve_all(content: dict[str, Any]) -> tuple[Options, list[str]]:
    messages: list[str] = []
    values: dict[str, Any] = {}
    for key, value in content.items():
        option = OPTIONS.get(key) or _ALIASES.get(key)
        if option is None:
            messages.append(_unknown(key))
        elif key not in option.aliases or option.name not in content:
            _resolve(option, key, value, values, messages)
    return Options(**values, given=frozenset(values)), messages


def _resolve(option: Option, key: str, value: Any, values: dict[str, Any], messages: list[str]) -> None:
    try:
        values[option.name] = option.kind.resolve(value)
    except (ValueError, OverflowError, RecursionError):
        using: Any = option.default
        if option.name == "start" and _means_on(value):
            using = values[option.name] = True
        messages.append(f"{key} is {shown(value)}, but must be {option.kind.allowed}; using {_written(option, using)}")


def _written(option: Option, value: Any) -> str:
    """Return the resolved value of an option in the form that it has in MS_PROFILER_OPTIONS."""
    if isinstance(option.kind, Size):
        value = option.kind.text(value)
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def _means_on(value: Any) -> bool:
    """Return whether a value of the option `start` that is no boolean means "on": who writes 1 expects a profile."""
    if isinstance(value, str):
        return value.strip().lower() in ("1", "yes", "on")
    return isinstance(value, (int, float)) and value == 1


def _unknown(key: str) -> str:
    import difflib  # the import takes 4 ms, and only a misspelled name needs it

    near = difflib.get_close_matches(key[:SHOWN], [*OPTIONS, *_ALIASES], 1)
    advice = f"; did you mean {near[0]}?" if near else "; `ms-profiler options` lists them all"
    return f"unknown option {shown(key)}{advice}"


def _consistent(options: Options, old_metrics: bool, messages: list[str]) -> Options:
    """Change options that contradict each other by MindSpore's rules; add a message for each that the user had set."""
    changes: dict[str, Any] = {}

    def change(name: str, value: Any, because: str) -> None:
        changes[name] = value
        if name in options.given:
            messages.append(f"{name} is {shown(options.as_dict()[name])}, but {because}; using {json.dumps(value)}")

    level, metrics = options.profiler_level, options.aic_metrics
    if old_metrics and metrics != "None" and "profiler_level" not in options.given:
        # The option has the name of the old interface, which had no levels. Level1 is the lowest level with metrics.
        level = changes["profiler_level"] = "Level1"
    if level == "LevelNone" and not options.mstx:
        change("profiler_level", level := "Level0", "that needs mstx")
    if level in ("LevelNone", "Level0") and metrics != "None":
        change("aic_metrics", "None", "metrics need profiler_level Level1 or Level2")
    if level in ("Level1", "Level2") and metrics == "None":
        change("aic_metrics", "PipeUtilization", f"{level} records metrics")
    if options.record_shapes and "CPU" not in options.activities:
        change("record_shapes", False, "shapes need activity CPU")
    if options.data_process and options.schedule is not None:
        change("data_process", False, "a schedule excludes it")
    if options.mstx_domain_include and not options.mstx:
        change("mstx_domain_include", (), "domains need mstx")
    if options.mstx_domain_exclude and not options.mstx:
        change("mstx_domain_exclude", (), "domains need mstx")
    elif options.mstx_domain_exclude and options.mstx_domain_include:
        change("mstx_domain_exclude", (), "mstx_domain_include is given too")
    return replace(options, **changes)


def unavailable_on_cpu(options: Options) -> list[tuple[str, str]]:
    """Return (name, reason) for each set option whose data a machine without an accelerator cannot provide."""
    return [
        (name, option.inert)
        for name, option in OPTIONS.items()
        if option.inert and name in options.given and getattr(options, name) != option.default
    ]


def describe() -> list[tuple[str, str, str, str]]:
    """Return the rows of the table of options: name with older names, type, default value, effect."""
    rows = []
    for option in OPTIONS.values():
        names = ", ".join(f"`{name}`" for name in (option.name, *option.aliases))
        default = "" if option.default is None else f"`{_written(option, option.default)}`"
        text = f"{option.text} Value: {option.kind.allowed}."
        if option.inert:
            text += f" On a CPU without effect: {option.inert}."
        rows.append((names, option.kind.type, default, text))
    return rows
