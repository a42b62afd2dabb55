"""Names of records on which the job and the analysis agree."""

from typing import Final

#: counter of the process' memory, bytes
HELD: Final = "host memory"
#: begin of the name of a span of Python's garbage collection; the generation follows
COLLECTION: Final = "garbage collection, generation"
#: span of waiting for an exchange that was queued
COMMUNICATION_WAIT: Final = "wait for communication"
#: span of a call of a network without gradients, in evaluation mode
EVALUATING: Final = "forward in evaluation mode"
#: begin of the text of an instant that has the bytes of the gradients which ranks exchange; the module's name follows
GRADIENTS: Final = "gradients of "
#: instants around an interval whose kernels the framework wrote together
KERNEL_WINDOW: Final = "kernel window"
KERNEL_WINDOW_END: Final = "kernel window end"
#: span of that writing
KERNEL_DRAIN: Final = "kernel drain"
#: instants around a stretch of time in which a dataset pipeline was watched; their argument is
#: pipeline * 2**32 + window
DATASET_WINDOW: Final = "dataset window"
DATASET_WINDOW_END: Final = "dataset window end"
#: bytes that the process may hold more than at the start of a kernel window before that ends: MindSpore's recorder
#: keeps the inputs of steps in pynative mode until then, and they are not the job's
KERNEL_WINDOW_MOST: Final = 128 << 20
