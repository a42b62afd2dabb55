"""Mirror of `native/file_format.h`: the on-disk format of the store, version 1.

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

#: magic, version, header_size, slot_size, flags, capacity, pid, index, created_ns, dropped, dropped_limit, unnamed,
#: reserved
HEADER = struct.Struct("=QIIIIQIIQQQQ56s")
#: start_ns, end_ns, arg, name, kind, category, flags, extra
SLOT = struct.Struct("=QQQIBBBB")

CATEGORY_FINE = 0x40

#: Bits of the argument of an `OP` span that tie it to its gradient, see `Category`.
OP_TIE_BITS = 40


#: Bits of a line in the argument of a `Kind.FRAME` slot.
FRAME_LINE_BITS = 22

#: Bits of an address in the end of a `Kind.BLOCK` slot, and the flag of one that was released.
BLOCK_BITS = 48
BLOCK_RELEASED = 1

#: Name of a `Kind.PROCESSOR` slot that does not know how long the thread waited for a processor.
NOT_READ = 2**32 - 1


class Kind(IntEnum):
    """Kind of a slot; 0 is a slot that was never committed."""

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
    COARSE = 16  # a step without fine-grained records and kernels, to keep to a budget of time
    STRETCH = 32  # has one value in all steps of a stretch, and the other value in the next stretch
    RESUMED = 64  # of a call: it began before
    YIELDED = 128  # of a call: it may continue


class Category(IntEnum):
    """Category of a span, from which the phases of a step follow.

    Categories from `CATEGORY_FINE` on are fine-grained: they are sampled, and stop first when the disk is short.

    The lower `OP_TIE_BITS` of the argument of an `OP` span are 2 (n + 1) for an operator that autograd gave the number
    n, 2 (n + 1) + 1 for the operator that computes its gradient, and 0 if no number is known. The upper bits are the id
    of the string with the shapes of its inputs, 0 if unknown. `Kind.OPERANDS` uses the same layout.
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
    ROLLOUT = 16  # the same
    MODULE = 0x40
    OP = 0x41
    CALL = 0x42
    BLOCK = 0x44
    TRACED = 0x43  # in no file: the analysis assigns it to operators that a compiler called


def category_name(number: int) -> str:
    """Return the name of a category for people; an unknown category is "other"."""
    known = number in Category.__members__.values()
    return (Category(number) if known else Category.OTHER).name.lower()


class StepSource(IntEnum):
    """Source of the end of a step, in order of rank; the category of a `Kind.STEP` slot.

    `WHOLE_RUN` applies when no other source reports; no slot has it.
    """

    SCRIPT = 1
    FRAMEWORK_LOOP = 2
    OPTIMIZER_CYCLE = 3
    TRAIN_CELL = 4
    EVALUATION_LOOP = 5
    DATASET = 6
    NETWORK_CALL = 7
    WHOLE_RUN = 8


#: Sources of a job that trains.
TRAINING = (StepSource.FRAMEWORK_LOOP, StepSource.OPTIMIZER_CYCLE, StepSource.TRAIN_CELL)
#: Sources of a job that trains nothing. Their steps are removed when a source of `TRAINING` reports steps later on the
#: same thread, whose numbers begin at 0. Steps before a step of `SCRIPT` are not removed.
GUESSES = (StepSource.EVALUATION_LOOP, StepSource.DATASET, StepSource.NETWORK_CALL)
