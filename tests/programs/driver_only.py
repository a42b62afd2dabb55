"""Launch kernels through a made-up driver, in a process without a framework, under `ms_profiler.profile`.

usage: driver_only.py STEPS
"""

import ctypes
import os
import sys

from gpu_profiled import profiled

STEPS = int(sys.argv[1])
ctypes.CDLL("libcuda.so.1").cuInit(0)
gpu = ctypes.CDLL(os.environ["MS_PROFILER_LIBCUPTI"])
gpu.fake_launch.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int]


def loop(after):
    for _ in range(STEPS):
        gpu.fake_launch(b"first", 7, 0, 500, 1)
        after()


profiled(loop, STEPS)
