"""Run two kernels of our own on an NVIDIA GPU by nothing but its driver; PyTorch is there only to compare.

usage: gpu_driver.py STEPS [TRACE]

With TRACE, PyTorch's own profiler records it, and its trace goes to that file. In each step, of 16 MB each: a set, a
copy to the device, `fill` on both streams, `add` on the first one when both have ended, and a copy back.
"""

import ctypes
import sys

STEPS, COUNT = int(sys.argv[1]), 1 << 22
PTX = b"""
.version 7.0
.target sm_70
.address_size 64

.visible .entry fill(.param .u64 into, .param .u32 count, .param .f32 value) {
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  .reg .f32 %f<2>;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r0, %r0, %r1, %r2;
  ld.param.u32 %r3, [count];
  setp.ge.u32 %p, %r0, %r3;
  @%p ret;
  ld.param.u64 %rd0, [into];
  cvta.to.global.u64 %rd0, %rd0;
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd0, %rd0, %rd1;
  ld.param.f32 %f0, [value];
  st.global.f32 [%rd0], %f0;
  ret;
}

.visible .entry add(.param .u64 into, .param .u64 from, .param .u32 count) {
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .b64 %rd<4>;
  .reg .f32 %f<3>;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r0, %r0, %r1, %r2;
  ld.param.u32 %r3, [count];
  setp.ge.u32 %p, %r0, %r3;
  @%p ret;
  ld.param.u64 %rd0, [into];
  ld.param.u64 %rd1, [from];
  cvta.to.global.u64 %rd0, %rd0;
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r0, 4;
  add.u64 %rd0, %rd0, %rd2;
  add.u64 %rd1, %rd1, %rd2;
  ld.global.f32 %f0, [%rd0];
  ld.global.f32 %f1, [%rd1];
  add.f32 %f0, %f0, %f1;
  st.global.f32 [%rd0], %f0;
  ret;
}
"""

if len(sys.argv) > 2:
    import torch

    torch.cuda.init()  # its profiler records the contexts that it knows of

cuda = ctypes.CDLL("libcuda.so.1")
void_p, u32 = ctypes.c_void_p, ctypes.c_uint32


def call(name, *arguments):
    """Call the driver, or end with what it answers."""
    result = getattr(cuda, name)(*arguments)
    if result:
        sys.exit(f"{name} answered {result}")


def made(kind, name, *arguments):
    """Return what a call writes to where its first argument points."""
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
first, second = (made(void_p, "cuStreamCreate", u32(1)) for _ in range(2))  # without waits for the default one
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
    launch(add, first, here, there, u32(COUNT))
    call("cuMemcpyDtoHAsync_v2", host, here, size, first)
    call("cuStreamSynchronize", first)


def loop(after):
    for _ in range(STEPS):
        step()
        after()
    print(host[0], host[COUNT - 1])


if len(sys.argv) > 2:
    with torch.profiler.profile() as profiler:
        loop(lambda: None)
    profiler.export_chrome_trace(sys.argv[2])
else:
    import ms_profiler

    steps = ms_profiler.schedule(wait=0, active=STEPS, repeat=1)
    with ms_profiler.profile(schedule=steps, on_trace_ready=ms_profiler.tensorboard_trace_handler("own")) as profiler:
        loop(profiler.step)
