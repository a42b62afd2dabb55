"""The on-disk format of the store, version 1, as in `native/file_format.h`.

The header file explains every field; `tests/test_format.py` compares the two.
"""

import struct
from enum import IntEnum, IntFlag

MAGIC = 0x31524F545350534D
FORMAT_VERSION = 1
HEADER_SIZE = 128
SLOT_SIZE = 32
STRING_MAX = 8160
SEGMENT_CONTROL = 1

#: The header of a file: magic, version, header_size, slot_size, flags, capacity, pid, index, created_ns, dropped,
#: dropped_limit, unnamed, reserved.
HEADER = struct.Struct("=QIIIIQIIQQQQ56s")
#: A slot: start_ns, end_ns, arg, name, kind, category, flags, extra.
SLOT = struct.Struct("=QQQIBBBB")

CATEGORY_FINE = 0x40

#: Number of bits in the argument of an `OP` span that connect the operator with its gradient, see `Category`.
OP_TIE_BITS = 40


#: Number of bits for a line number in the argument of a `Kind.FRAME` slot.
FRAME_LINE_BITS = 22

#: Number of bits for an address in the field `end_ns` of a `Kind.BLOCK` slot.
BLOCK_BITS = 48
#: The flag of a `Kind.BLOCK` slot for a block that was released.
BLOCK_RELEASED = 1

#: Times of undamaged slots are below this limit, 146 years after the machine's start. With the offset of the clock,
#: such a time fits into a signed integer of 64 bits.
LATEST_NS = 2**62

#: Value of the field `name` of a `Kind.PROCESSOR` slot if the time that the thread waited for a processor is unknown.
NOT_READ = 2**32 - 1


class Kind(IntEnum):
    """The kind of a slot; 0 means that the slot was never committed."""

    OPEN = 1
    SPAN = 2
    INSTANT = 3
    COUNTER = 4
    STEP = 5
    STRING = 6
    ANCHOR = 7
    THREAD = 8
    DEVICE = 9  # see `store.device_format`
    DEVICE_PLACE = 10
    OPERANDS = 11
    PROCESSOR = 12
    FRAME = 13
    SAMPLED = 14
    CALL = 15
    METRIC = 16
    BLOCK = 17
    BLOCK_PLACE = 18


class Flag(IntFlag):
    """Flags of a slot."""

    RAISED = 1
    ABANDONED = 2
    UNRECORDED = 4
    NO_GRADIENTS = 8  # a call of a network outside of any code that computes gradients
    COARSE = 16  # a step without fine-grained records and kernels, to limit the overhead
    STRETCH = 32  # for steps: set in every second stretch, which is a group of steps with one sampled burst
    RESUMED = 64  # for calls: this is not the first part of the call
    YIELDED = 128  # for calls: this may not be the last part of the call


class Category(IntEnum):
    """The category of a span; the phases of a step follow from the categories.

    Spans of the categories from `CATEGORY_FINE` on are fine-grained: they may be recorded in some steps only, and if
    disk space becomes short, they are dropped first.

    The argument of an `OP` span has two parts:

    - The lower `OP_TIE_BITS` bits connect an operator with the operator that computes its gradient. If autograd gave
      the operator the number n, these bits are 2 (n + 1) for the operator, and 2 (n + 1) + 1 for the gradient's
      operator. Without such a number, they are 0.
    - The upper bits are the id of the string with the shapes of the operator's inputs, 0 if unknown.

    `Kind.OPERANDS` uses the same layout.
    """

    OTHER = 0
    IMPORT = 1
    RUN = 2
    EPOCH = 3
    DATA = 4
    COMPILE = 5
    GRAPH = 6
    FORWARD = 7
    BACKWARD = 8
    OPTIMIZER = 9
    COMMUNICATION = 10
    CHECKPOINT = 11
    SYNC = 12
    MARKER = 13
    PROFILER = 14
    EVALUATION = 15  # a framework's own loop
    ROLLOUT = 16  # a rollout of a library's own loop
    MODULE = 0x40
    OP = 0x41
    CALL = 0x42
    BLOCK = 0x44
    TRACED = 0x43  # no file has this value: the analysis gives it to operators that a compiler called


def category_name(number: int) -> str:
    """Return the name of a category for people; an unknown category is "other"."""
    known = number in Category.__members__.values()
    return (Category(number) if known else Category.OTHER).name.lower()


class StepSource(IntEnum):
    """The sources that can report the ends of steps, the preferred source first.

    The category of a `Kind.STEP` slot is the source that reported the step. `WHOLE_RUN` applies if no source reports an
    end; no slot has this value.
    """

    SCRIPT = 1
    FRAMEWORK_LOOP = 2
    OPTIMIZER_CYCLE = 3
    TRAIN_CELL = 4
    EVALUATION_LOOP = 5
    DATASET = 6
    NETWORK_CALL = 7
    WHOLE_RUN = 8


#: The sources in a job that trains.
TRAINING = (StepSource.FRAMEWORK_LOOP, StepSource.OPTIMIZER_CYCLE, StepSource.TRAIN_CELL)
#: The sources in a job that trains nothing. If a source of `TRAINING` reports steps later on the same thread, the
#: earlier steps are removed, and the new numbers begin at 0. Steps before a step of `SCRIPT` are not removed.
GUESSES = (StepSource.EVALUATION_LOOP, StepSource.DATASET, StepSource.NETWORK_CALL)
