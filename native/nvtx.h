/* PyTorch's operators in builds for CUDA without ITT: the ranges that PyTorch pushes through NVTX.
 *
 * The extension is an NVTX injection library. Each library that uses NVTX has a copy of NVTX's code. At its first call,
 * the copy loads the library that the environment variable NVTX_INJECTION64_PATH names, and calls this library's
 * InitializeInjectionNvtx2 with a function that returns tables of callbacks. The extension sets callbacks only in the
 * copy of libtorch_cuda. Types and numbers are those of NVTX 3 (nvtxDetail/nvtxTypes.h).
 *
 * The text of a range is "NAME, seq = 12, op_id = 34, sizes = [[4, 8], [8], []], input_op_ids = [...]" (`getNvtxStr` in
 * PyTorch). `seq` is the number that autograd gave the operator, and `sizes` has the shapes of the inputs. PyTorch
 * leaves out each part after the name that it does not know.
 */
#ifndef MSP_NVTX_H
#define MSP_NVTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Record ranges from now on, on every thread on which PyTorch emits them. Returns false if libtorch_cuda's copy of NVTX
 * has not loaded this library. */
bool msp_nvtx_start(void);

/* The parts of the text of a range. */
typedef struct {
  size_t name_length;
  uint64_t tie;      /* as in the argument of an operator (file_format.h); 0 if there is no number of autograd */
  const char *sizes; /* points into the text, after the outer bracket of the sizes; NULL if there are none */
} msp_range;

msp_range msp_nvtx_parse(const char *text);

/* Write sizes to `to` in the store's notation for shapes, "4,8;8;;". Returns the length; 0 if the sizes do not fit, or
 * if their text was cut. */
size_t msp_nvtx_shapes(const char *sizes, char *to, size_t room);

#endif
