"""Names of records, which the job writes and the analysis reads."""

from typing import Final

#: counter of the host memory that the process holds, bytes
HELD: Final = "host memory"
#: counters of the host memory of tensors, bytes: memory in use now, and its peak since the previous record
TENSORS: Final = "memory of tensors"
TENSORS_PEAK: Final = "memory of tensors, highest"
#: Counter of the memory that the framework's allocator holds on a device. The first field of the name is the device,
#: the second is "allocated", "highest" or "reserved".
DEVICE_TENSORS: Final = "memory of tensors on {}, {}"
#: span of work of ms-profiler that a call of the script requested, for example an analysis
REQUESTED: Final = "profiler of the script"
#: prefix of the name of a span of Python's garbage collection; the generation follows
COLLECTION: Final = "garbage collection, generation"
#: span in which an iterator over a dataset is created; an iterator of PyTorch starts its workers then
ITERATOR: Final = "create iterator"
#: prefix of the name of a span in which an iterator waits for a batch; the class of the dataset follows
DATA_WAIT: Final = "wait for "
#: span in which an iterator of PyTorch ends its workers
WORKERS_END: Final = "end workers"
#: prefix of the name of a span of a method of the script's callback, which a loop of the framework calls; the class and
#: the method follow
CALLBACK: Final = "callback "
#: span in which a scheduler of PyTorch computes learning rates
LEARNING_RATE: Final = "learning rate"
#: span of a wait for a queued collective
COMMUNICATION_WAIT: Final = "wait for communication"
#: prefix of the name of a span in which a rank waits for a queued message; `Send@GROUP` or `Receive@GROUP` follows
MESSAGE_WAIT: Final = "wait for "
#: The span of a message contains an instant that says which rank is at the other end. The instant has one of these two
#: names. Its argument is (number of the other rank) * 2**32 + tag. PEER: the rank's number in the job. PEER_IN_GROUP:
#: the rank's number in the group of the message.
PEER: Final = "message, rank of the job"
PEER_IN_GROUP: Final = "message, rank of the group"
#: span of a call of a network in evaluation mode, without gradients
EVALUATING: Final = "forward in evaluation mode"
#: Prefix of the name of an instant about a module whose gradients ranks exchange; the name of the module follows. The
#: argument of the instant is the size of these gradients in bytes.
GRADIENTS: Final = "gradients of "
#: instants at the begin and the end of a kernel window, which is a period in which MindSpore's kernel recorder runs
KERNEL_WINDOW: Final = "kernel window"
KERNEL_WINDOW_END: Final = "kernel window end"
#: span in which ms-profiler stops MindSpore's kernel recorder, and MindSpore writes the files of the kernel window
KERNEL_DRAIN: Final = "kernel drain"
#: Instants at the begin and the end of a period (window) in which MindSpore's dataset profiler sampled a pipeline.
#: Their argument is (number of the pipeline) * 2**32 + (number of the window).
DATASET_WINDOW: Final = "dataset window"
DATASET_WINDOW_END: Final = "dataset window end"
#: ms-profiler stops MindSpore's kernel recorder when the process holds this many bytes more than at the recorder's
#: start. The reason: in pynative mode, the recorder keeps the inputs of steps that the job itself has dropped. The
#: first limit holds for the first `KERNEL_WINDOWS_SHORT` windows, the second for all others. Short windows tell a leak
#: of the job from memory of the recorder: only the job's memory still grows in the next window
KERNEL_WINDOW_FIRST: Final = 32 << 20
KERNEL_WINDOW_MOST: Final = 128 << 20
KERNEL_WINDOWS_SHORT: Final = 4
#: Prefix of the name of an instant about the buckets in which DistributedDataParallel exchanges gradients. Seven fields
#: follow, separated by semicolons: iterations so far; whether the buckets were made again; bytes of the buckets; bytes
#: of the all-reduce that tells all ranks which parameters were used (0 without this all-reduce); name of the script's
#: communication hook; group; module.
BUCKETS: Final = "buckets "
#: Prefixes of the names of counters of a function of the script in a dataset; name, file and line follow.
#: The counters are the calls so far, and their time in ns, which is (calls) * (mean time of some calls).
TRANSFORM_CALLS: Final = "calls in datasets of "
TRANSFORM_TIME: Final = "time in datasets of "
#: prefix of the name of a counter of a function of the script that MindSpore runs in processes of a dataset; name, file
#: and line follow. The counter is the number of these processes.
TRANSFORM_PROCESSES: Final = "processes in datasets of "
#: span in which a worker of a DataLoader, or the process that trains, makes a batch
FETCHED: Final = "fetch batch"
#: span of ms-profiler's own work between two steps
OWN_WORK: Final = "work of ms-profiler"
#: shortest such work in ns that is recorded and belongs to no step; shorter work of ms-profiler in a step is no phase
OWN_WORK_LEAST: Final = 20_000
#: kinds of tensors whose addresses are stored in the files `places/*.json`
PARAMETER: Final = "parameters"
GRADIENT: Final = "gradients"
STATE: Final = "optimizer state"
