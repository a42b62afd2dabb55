"""Generate result directories with steps of known noise, for the self-test of the gate."""

import json
import os
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist

from ms_profiler.store import format as fmt, layout, run_info
from ms_profiler.store.format import Category, Kind, StepSource

STEPS = 100
STEP_NS = 10_000_000
STEP_NOISE = 0.02
SPIKES = 0.03  #: share of the generated steps that are much longer than others (spikes)
SPIKE = 2.0  #: factor by which a spike is longer than an ordinary step
#: (phase, share of the step's time that the phase takes), in the order in which the phases run
_PHASES = ((Category.DATA, 0.1), (Category.FORWARD, 0.3), (Category.BACKWARD, 0.5), (Category.OPTIMIZER, 0.1))
_WALL_NS = 1_760_000_000_000_000_000
_RAW_NS = 5_000_000_000_000
_PID = 4242


@dataclass(frozen=True)
class Noise:
    """The noise of generated runs, and the factor by which these runs are slower than others.

    Attributes:
        between: standard deviation of the step time between runs, as a share.
        slower: the factor by which all steps are longer; 1 for runs that are not slower.
    """

    between: float
    slower: float = 1.0


def durations(noise: Noise, chance: random.Random, place: float | None = None) -> list[int]:
    """Return the durations of the steps of one generated run, in ns.

    The durations contain a deviation of the whole run, a deviation of each step, and spikes.

    Args:
        noise: the noise between runs, and the factor by which the steps are longer.
        chance: the random generator.
        place: which deviation the whole run gets, as a quantile of the distribution of the noise, from 0 to 1. None
            takes a random one.
    """
    away = chance.gauss(0, 1) if place is None else NormalDist().inv_cdf(place)
    run = noise.slower * max(1 + noise.between * away, 0.1)
    return [
        round(STEP_NS * run * max(chance.gauss(1, STEP_NOISE), 0.1) * (SPIKE if chance.random() < SPIKES else 1.0))
        for _ in range(STEPS)
    ]


def write(folder: str, number: int, steps: Sequence[int]) -> str:
    """Write a generated run as a result directory, as if it had been recorded, and return the path of the directory.

    Args:
        folder: the folder that receives the directory.
        number: the number of the run, from which its start time is computed; each run needs another one.
        steps: the duration of each step, in ns.
    """
    began = _WALL_NS + number * 10**12
    path = os.path.join(folder, layout.result_name("made", _PID + number, began / 1e9))
    process = os.path.join(layout.framework_dir(path), f"process_{_PID}")
    os.makedirs(process)
    info = run_info.RunInfo(
        product_version="made",
        pid=_PID,
        host="made",
        started_wall=began / 1e9,
        started_ns=_RAW_NS,
        python="made",
        framework={"name": "made", "version": "1", "device": "CPU"},
        steps={"source": "script", "why": "made"},
        cost={"span_ns": 60.0, "idle_ns": 10.0, "start_ns": 1e6},
    )
    _json(layout.run_info_path(path), info)
    record = run_info.ProcessInfo(pid=_PID, recorder="native", state="ended", end="exit")
    names = {category.name.lower(): index for index, (category, _) in enumerate(_PHASES, 1)}
    control, thread = bytearray(), bytearray()
    _slot(control, Kind.ANCHOR, _RAW_NS, began, 100)
    for name, index in {**names, "MainThread": len(names) + 1}.items():
        _slot(control, Kind.STRING, _RAW_NS, 0, len(name), index, extra=1)
        control += name.encode().ljust(fmt.SLOT_SIZE, b"\0")
    _slot(thread, Kind.THREAD, _RAW_NS, _PID, 1, len(names) + 1)
    start = _RAW_NS + 1_000_000
    for step, duration in enumerate(steps):
        at = start
        for category, share in _PHASES:
            end = at + int(duration * share)
            _slot(thread, Kind.SPAN, at, end, 0, names[category.name.lower()], category)
            at = end
        _slot(thread, Kind.STEP, start, start + duration, step, 0, StepSource.SCRIPT)
        start += duration
    _slot(control, Kind.ANCHOR, start, began + start - _RAW_NS, 100)
    record.ended_ns = start
    _json(os.path.join(process, layout.PROCESS_INFO), record)
    for index, slots in enumerate((control, thread)):
        with open(os.path.join(process, layout.segment_name(index)), "wb") as stream:
            stream.write(_header(index, slots) + slots)
    return path


def _slot(
    to: bytearray, kind: int, start: int, end: int, arg: int, name: int = 0, category: int = 0, extra: int = 0
) -> None:
    to += fmt.SLOT.pack(start, end, arg, name, kind, category, 0, extra)


def _header(index: int, slots: bytearray) -> bytes:
    count = len(slots) // fmt.SLOT_SIZE
    flags = fmt.SEGMENT_CONTROL if index == 0 else 0
    sizes = (fmt.HEADER_SIZE, fmt.SLOT_SIZE, flags, count)
    return fmt.HEADER.pack(fmt.MAGIC, fmt.FORMAT_VERSION, *sizes, _PID, index, _RAW_NS, 0, 0, 0, b"")


def _json(path: str, record: run_info.RunInfo | run_info.ProcessInfo) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(asdict(record), stream)
