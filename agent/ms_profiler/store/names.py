"""Names of records, which the job writes and the analysis reads."""

from typing import Final

#: counter of the process' memory, bytes
HELD: Final = "host memory"
#: counters of the tensors in host memory, bytes: in use now, and the peak since the previous value
TENSORS: Final = "memory of tensors"
TENSORS_PEAK: Final = "memory of tensors, highest"
#: Counter of the memory that an allocator holds on a device. The first field is the device, the second "allocated",
#: "highest" or "reserved".
DEVICE_TENSORS: Final = "memory of tensors on {}, {}"
#: prefix of the name of a span of Python's garbage collection; the generation follows
COLLECTION: Final = "garbage collection, generation"
#: span of a wait for a queued exchange
COMMUNICATION_WAIT: Final = "wait for communication"
#: prefix of the name of a wait for a queued message; `Send@GROUP` or `Receive@GROUP` follows
MESSAGE_WAIT: Final = "wait for "
#: The span of a message contains an instant, which has one of these two names. The argument of the instant is (number
#: of the other rank) * 2**32 + tag. PEER: this number counts the ranks of the job. PEER_IN_GROUP: it counts the ranks
#: of the message's group.
PEER: Final = "message, rank of the job"
PEER_IN_GROUP: Final = "message, rank of the group"
#: span of a call of a network in evaluation mode, without gradients
EVALUATING: Final = "forward in evaluation mode"
#: Prefix of the text of an instant; the module's name follows. The instant's argument is the number of bytes of the
#: module's gradients that ranks exchange.
GRADIENTS: Final = "gradients of "
#: instants at both ends of a window of the kernel stream
KERNEL_WINDOW: Final = "kernel window"
KERNEL_WINDOW_END: Final = "kernel window end"
#: span in which a kernel window ends and MindSpore writes the window's files
KERNEL_DRAIN: Final = "kernel drain"
#: Instants at the begin and the end of a window in which a dataset pipeline was sampled. Their argument is (number of
#: the pipeline) * 2**32 + (number of the window).
DATASET_WINDOW: Final = "dataset window"
DATASET_WINDOW_END: Final = "dataset window end"
#: A kernel window ends when the process holds this many bytes more than at the window's start. In pynative mode,
#: MindSpore's recorder holds the inputs of steps during a window, although the job has dropped them.
KERNEL_WINDOW_MOST: Final = 128 << 20
#: Prefix of the text of an instant about the buckets in which DistributedDataParallel exchanges gradients. The text has
#: seven fields, separated by semicolons: iterations so far; whether the buckets were made again; bytes of the buckets;
#: bytes of the all-reduce that tells all ranks which parameters were used (0 without such an all-reduce); name of the
#: script's hook; group; module.
BUCKETS: Final = "buckets "
#: span of making a batch, in a worker of a DataLoader or in the process that trains
FETCHED: Final = "fetch batch"
#: span of ms-profiler's own work between two steps
OWN_WORK: Final = "work of ms-profiler"
#: kinds of tensors whose addresses are written to `places`
PARAMETER: Final = "parameters"
GRADIENT: Final = "gradients"
STATE: Final = "optimizer state"
