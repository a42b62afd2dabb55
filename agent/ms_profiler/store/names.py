"""Names of records, which the job writes and the analysis reads."""

from typing import Final

#: counter of the process' memory, bytes
HELD: Final = "host memory"
#: counters of the memory of tensors on a processor, bytes: in use, and the most since the value before
TENSORS: Final = "memory of tensors"
TENSORS_PEAK: Final = "memory of tensors, highest"
#: counters of the memory that an allocator holds on a device; the argument is the number of the device
DEVICE_TENSORS: Final = "memory of tensors on {}, {}"
#: begin of the name of a span of Python's garbage collection; the generation follows
COLLECTION: Final = "garbage collection, generation"
#: span of waiting for an exchange that was queued
COMMUNICATION_WAIT: Final = "wait for communication"
#: begin of the name of a span of waiting for a message that was queued; `Send@GROUP` or `Receive@GROUP` follows
MESSAGE_WAIT: Final = "wait for "
#: span of a call of a network without gradients, in evaluation mode
EVALUATING: Final = "forward in evaluation mode"
#: prefix of the text of an instant with the bytes of the gradients that ranks exchange; the module's name follows
GRADIENTS: Final = "gradients of "
#: instants at both ends of a window of the kernel stream
KERNEL_WINDOW: Final = "kernel window"
KERNEL_WINDOW_END: Final = "kernel window end"
#: span of writing the kernels of a window
KERNEL_DRAIN: Final = "kernel drain"
#: instants around a stretch of time in which a dataset pipeline was watched; their argument is
#: pipeline * 2**32 + window
DATASET_WINDOW: Final = "dataset window"
DATASET_WINDOW_END: Final = "dataset window end"
#: a kernel window ends when the process holds this many bytes more than at its start: until then MindSpore's recorder
#: keeps the inputs of steps in pynative mode, which are not the job's memory
KERNEL_WINDOW_MOST: Final = 128 << 20
#: prefix of the text of an instant with the buckets in which DistributedDataParallel exchanges gradients: iterations so
#: far, whether the buckets were made again, their bytes, bytes of the all-reduce that tells which parameters were used
#: (0 without one), name of the script's hook, group and module, with semicolons between
BUCKETS: Final = "buckets "
#: span of making a batch, in a worker of a DataLoader or in the process that trains
FETCHED: Final = "fetch batch"
#: kinds of tensors whose addresses are noted
PARAMETER: Final = "parameters"
GRADIENT: Final = "gradients"
STATE: Final = "optimizer state"
