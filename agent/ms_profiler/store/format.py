"""The format of the files with records, version 1, as `native/file_format.h` defines it.

A file has a header and then slots of equal size. A slot holds a record or a part of one. The C header file explains
every field. `tests/test_format.py` compares this module with it.
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

#: Number of the lower bits in the argument of an operator's span. These bits connect the operator with its gradient.
OP_TIE_BITS = 40


#: Number of bits for the line number in the argument of a `Kind.FRAME` slot, which describes a frame of a Python stack.
FRAME_LINE_BITS = 22

#: Number of bits for the address of a memory block in the field `end_ns` of a `Kind.BLOCK` slot.
BLOCK_BITS = 48
#: The flag of a `Kind.BLOCK` slot if the job released the memory block. Without the flag, the job allocated the block.
BLOCK_RELEASED = 1

#: Upper limit of times: 146 years after the start of the machine. A slot with a later time is damaged. Times below the
#: limit fit into a signed integer of 64 bits, also after the offset of the clock is added.
LATEST_NS = 2**62

#: Value of the field `name` of a `Kind.PROCESSOR` slot if the time that the thread waited for a processor is unknown.
NOT_READ = 2**32 - 1


class Kind(IntEnum):
    """The kind of record in a slot; 0 means that the writer did not finish (commit) the slot."""

    OPEN = 1
    SPAN = 2
    INSTANT = 3
    COUNTER = 4
    STEP = 5
    STRING = 6
    ANCHOR = 7
    THREAD = 8
    DEVICE = 9  # a record of an accelerator, in the format of `store.device_format`
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
    """Flags of the record in a slot."""

    RAISED = 1
    ABANDONED = 2
    UNRECORDED = 4
    NO_GRADIENTS = 8  # a call of a network outside of any code that computes gradients
    COARSE = 16  # a step without fine-grained records and kernels, which are left out to limit the overhead
    STRETCH = 32  # for steps: set in every second stretch, which is a sequence of steps with one sampled group
    RESUMED = 64  # for a call of a generator: the generator began earlier and continues here
    YIELDED = 128  # for a call of a generator: it has yielded and may continue later


class Category(IntEnum):
    """The category of a span, from which the analysis computes the phases of a step (data, forward, backward, ...).

    Categories with a number of `CATEGORY_FINE` or more are fine-grained. Their spans may be recorded in some steps
    only, and are dropped first if disk space becomes short.

    The argument of an `OP` span has two parts:

    - The lower `OP_TIE_BITS` bits connect an operator with the operator that computes its gradient. If autograd gave
      the operator the number n, these bits are 2 (n + 1) for the operator, and 2 (n + 1) + 1 for the gradient's
      operator. Without such a number, they are 0.
    - The upper bits are the id of the string with the shapes of the operator's inputs, 0 if unknown.

    The argument of a `Kind.OPERANDS` slot has the same two parts.
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
    EVALUATION = 15  # an evaluation in a loop of the framework or of a library
    ROLLOUT = 16  # a rollout in a loop of a library: it plays in an environment to collect training data
    MODULE = 0x40
    OP = 0x41
    CALL = 0x42
    BLOCK = 0x44
    TRACED = 0x43  # for operators that a compiler called; only the analysis sets this value, no file contains it


def category_name(number: int) -> str:
    """Return the name of a category for people; an unknown category is "other"."""
    known = number in Category.__members__.values()
    return (Category(number) if known else Category.OTHER).name.lower()


class StepSource(IntEnum):
    """The sources that can report the ends of steps, the preferred source first.

    A `Kind.STEP` slot has the source that reported the step in its field `category`. `WHOLE_RUN` is the source of a run
    in which no end of a step was reported. It is never stored in a slot.
    """

    SCRIPT = 1
    FRAMEWORK_LOOP = 2
    OPTIMIZER_CYCLE = 3
    TRAIN_CELL = 4
    EVALUATION_LOOP = 5
    DATASET = 6
    NETWORK_CALL = 7
    WHOLE_RUN = 8


#: The sources that report the ends of training steps.
TRAINING = (StepSource.FRAMEWORK_LOOP, StepSource.OPTIMIZER_CYCLE, StepSource.TRAIN_CELL)
#: The sources that count while a job has not trained. If a source of `TRAINING` reports a step later on the same
#: thread, the job does train. Then the earlier steps are removed, and the new numbers begin at 0. Steps before a step
#: of `SCRIPT` are not removed.
GUESSES = (StepSource.EVALUATION_LOOP, StepSource.DATASET, StepSource.NETWORK_CALL)
