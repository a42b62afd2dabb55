/* PyTorch's operators in builds for CUDA without ITT: the ranges that PyTorch pushes through NVTX.
 *
 * The extension is an NVTX injection library: the copy of NVTX in each library loads, at its first call, the library
 * that NVTX_INJECTION64_PATH names, and calls its InitializeInjectionNvtx2 with a function that returns tables. Only
 * the copy in libtorch_cuda is served. Layouts and numbers are those of NVTX 3 (nvtxDetail/nvtxTypes.h).
 *
 * A range is named "NAME, seq = 12, op_id = 34, sizes = [[4, 8], [8], []], input_op_ids = [...]", each part after the
 * name only where it is known: the number of autograd, and the shapes of the inputs (`getNvtxStr` in PyTorch).
 */
#ifndef MSP_NVTX_H
#define MSP_NVTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Record ranges from here on, on each thread whose hook is on. Returns false when PyTorch did not ask us. */
bool msp_nvtx_start(void);

/* The parsed name of a range. */
typedef struct {
  size_t name_length;
  uint64_t tie;      /* as in the argument of an operator (file_format.h); 0 where no number is told */
  const char *sizes; /* in the text, behind the outer bracket; NULL where none are told */
} msp_range;

msp_range msp_nvtx_parse(const char *text);

/* Write sizes as the store holds shapes, "4,8;8;;", into `to`. Returns the length, 0 where they do not fit. */
size_t msp_nvtx_shapes(const char *sizes, char *to, size_t room);

#endif
