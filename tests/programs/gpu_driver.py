"""Run two kernels of our own on an NVIDIA GPU through its driver alone; PyTorch serves only for comparison.

usage: gpu_driver.py STEPS [TRACE]

With TRACE, PyTorch's own profiler records the run and writes its trace to that file. Each step has a memory set, a copy
to the device, the kernel `fill` on both streams, the kernel `add` on the first stream after both, and a copy back. Each
of them handles 16 MB.
"""

import ctypes
import sys

from gpu_profiled import profiled

STEPS, TRACE = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
COUNT = 1 << 22
#: In `body`, %rd1 is the address of the thread's own element. Threads beyond the last element have returned.
KERNEL = """
.visible .entry %(name)s(.param .u64 into, .param .u32 count, .param %(given)s) {
  .reg .pred %%p;
  .reg .b32 %%r<4>;
  .reg .b64 %%rd<3>;
  .reg .f32 %%f<2>;
  mov.u32 %%r0, %%ctaid.x;
  mov.u32 %%r1, %%ntid.x;
  mov.u32 %%r2, %%tid.x;
  mad.lo.u32 %%r0, %%r0, %%r1, %%r2;
  ld.param.u32 %%r3, [count];
  setp.ge.u32 %%p, %%r0, %%r3;
  @%%p ret;
  mul.wide.u32 %%rd0, %%r0, 4;
  ld.param.u64 %%rd1, [into];
  cvta.to.global.u64 %%rd1, %%rd1;
  add.u64 %%rd1, %%rd1, %%rd0;
  %(body)s
  st.global.f32 [%%rd1], %%f0;
  ret;
}
"""
FILL = "ld.param.f32 %f0, [value];"
ADD = """ld.param.u64 %rd2, [from];
  cvta.to.global.u64 %rd2, %rd2;
  add.u64 %rd2, %rd2, %rd0;
  ld.global.f32 %f0, [%rd1];
  ld.global.f32 %f1, [%rd2];
  add.f32 %f0, %f0, %f1;"""
PTX = (
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    + KERNEL % {"name": "fill", "given": ".f32 value", "body": FILL}
    + KERNEL % {"name": "add", "given": ".u64 from", "body": ADD}
).encode()

if TRACE:
    import torch

    torch.cuda.init()  # PyTorch's profiler records only contexts that PyTorch has initialised

cuda = ctypes.CDLL("libcuda.so.1")
void_p, u32 = ctypes.c_void_p, ctypes.c_uint32


def call(name, *arguments):
    """Call a function of the driver; exit with its name and its error code if it fails."""
    result = getattr(cuda, name)(*arguments)
    if result:
        sys.exit(f"{name} answered {result}")


def made(kind, name, *arguments):
    """Call a function of the driver that writes a value through its first argument, a pointer; return the value."""
    value = kind()
    call(name, ctypes.byref(value), *arguments)
    return value


call("cuInit", 0)
device = made(ctypes.c_int, "cuDeviceGet", 0)
context = made(void_p, "cuDevicePrimaryCtxRetain", device)
call("cuCtxSetCurrent", context)
module = made(void_p, "cuModuleLoadData", ctypes.c_char_p(PTX))
fill = made(void_p, "cuModuleGetFunction", module, b"fill")
add = made(void_p, "cuModuleGetFunction", module, b"add")
first, second = (made(void_p, "cuStreamCreate", u32(1)) for _ in range(2))  # not synchronised with the default stream
size = ctypes.c_size_t(4 * COUNT)
here, there = made(ctypes.c_uint64, "cuMemAlloc_v2", size), made(ctypes.c_uint64, "cuMemAlloc_v2", size)
host = (ctypes.c_float * COUNT)()


def launch(kernel, stream, *parameters):
    places = (void_p * len(parameters))(*(ctypes.cast(ctypes.byref(item), void_p) for item in parameters))
    blocks, threads = (u32(COUNT // 256), u32(1), u32(1)), (u32(256), u32(1), u32(1))
    call("cuLaunchKernel", kernel, *blocks, *threads, u32(0), stream, places, None)


def step():
    call("cuMemsetD32Async", here, u32(0), ctypes.c_size_t(COUNT), first)
    call("cuMemcpyHtoDAsync_v2", there, host, size, second)
    launch(fill, first, here, u32(COUNT), ctypes.c_float(1.5))
    launch(fill, second, there, u32(COUNT), ctypes.c_float(2.25))
    call("cuStreamSynchronize", second)
    launch(add, first, here, u32(COUNT), there)
    call("cuMemcpyDtoHAsync_v2", host, here, size, first)
    call("cuStreamSynchronize", first)


def loop(after):
    for _ in range(STEPS):
        step()
        after()
    print(host[0], host[COUNT - 1])


profiled(loop, STEPS, TRACE)
