#include "cupti_calls.h"

#include <stddef.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* Calls of the driver that launch work or wait. `_ptsz` and `_ptds` are the variants for a default stream of each
 * thread. Every CUPTI knows the first call; an older one may not know some of the others. */
static const uint16_t launches[] = {
    307, /* cuLaunchKernel */
    17,  /* cuCtxSynchronize */
    121, /* cuEventSynchronize */
    126, /* cuStreamSynchronize */
    216, /* cuMemsetD8Async */
    218, /* cuMemsetD16Async */
    220, /* cuMemsetD32Async */
    249, /* cuMemsetD8_v2 */
    250, /* cuMemsetD16_v2 */
    251, /* cuMemsetD32_v2 */
    276, /* cuMemcpyHtoD_v2 */
    277, /* cuMemcpyHtoDAsync_v2 */
    278, /* cuMemcpyDtoH_v2 */
    279, /* cuMemcpyDtoHAsync_v2 */
    280, /* cuMemcpyDtoD_v2 */
    281, /* cuMemcpyDtoDAsync_v2 */
    289, /* cuMemcpy2DAsync_v2 */
    291, /* cuMemcpy3DAsync_v2 */
    305, /* cuMemcpy */
    306, /* cuMemcpyAsync */
    319, /* cuMemcpyPeerAsync */
    397, /* cuMemcpyHtoD_v2_ptds */
    398, /* cuMemcpyDtoH_v2_ptds */
    399, /* cuMemcpyDtoD_v2_ptds */
    408, /* cuMemcpy_ptds */
    411, /* cuMemsetD8_v2_ptds */
    412, /* cuMemsetD16_v2_ptds */
    413, /* cuMemsetD32_v2_ptds */
    418, /* cuMemcpyAsync_ptsz */
    421, /* cuMemcpyHtoDAsync_v2_ptsz */
    422, /* cuMemcpyDtoHAsync_v2_ptsz */
    423, /* cuMemcpyDtoDAsync_v2_ptsz */
    424, /* cuMemcpy2DAsync_v2_ptsz */
    425, /* cuMemcpy3DAsync_v2_ptsz */
    426, /* cuMemcpyPeerAsync_ptsz */
    428, /* cuMemsetD8Async_ptsz */
    429, /* cuMemsetD16Async_ptsz */
    430, /* cuMemsetD32Async_ptsz */
    440, /* cuStreamSynchronize_ptsz */
    442, /* cuLaunchKernel_ptsz */
    477, /* cuLaunchCooperativeKernel */
    478, /* cuLaunchCooperativeKernel_ptsz */
    480, /* cuLaunchCooperativeKernelMultiDevice */
    514, /* cuGraphLaunch */
    515, /* cuGraphLaunch_ptsz */
    652, /* cuLaunchKernelEx */
    653, /* cuLaunchKernelEx_ptsz */
    776, /* cuMemcpyBatchAsync */
    777, /* cuMemcpyBatchAsync_ptsz */
    796, /* cuMemcpyBatchAsync_v2 */
    797, /* cuMemcpyBatchAsync_v2_ptsz */
    800, /* cuCtxSynchronize_v2 */
};

/* calls of the runtime; a name ends with the version of CUDA that introduced it */
static const uint16_t questions[] = {
    10,  /* cudaGetLastError_v3020 */
    11,  /* cudaPeekAtLastError_v3020 */
    12,  /* cudaGetErrorString_v3020 */
    17,  /* cudaGetDevice_v3020 */
    132, /* cudaStreamQuery_v3020 */
    134, /* cudaEventCreateWithFlags_v3020 */
    136, /* cudaEventDestroy_v3020 */
    138, /* cudaEventQuery_v3020 */
    151, /* cudaPointerGetAttributes_v4000 */
    200, /* cudaDeviceGetAttribute_v5000 */
    317, /* cudaStreamIsCapturing_v10000 */
    318, /* cudaStreamIsCapturing_ptsz_v10000 */
    324, /* cudaStreamGetCaptureInfo_v10010 */
    325, /* cudaStreamGetCaptureInfo_ptsz_v10010 */
    336, /* cudaGetFuncBySymbol_v11000 */
    409, /* cudaStreamGetCaptureInfo_v2_v11030 */
    410, /* cudaStreamGetCaptureInfo_v2_ptsz_v11030 */
    461, /* cudaStreamGetCaptureInfo_v12030 */
    462, /* cudaStreamGetCaptureInfo_ptsz_v12030 */
};

static bool among(const uint16_t *table, size_t count, uint32_t number) {
  for (size_t i = 0; i < count; ++i) {
    if (table[i] == number) return true;
  }
  return false;
}

bool cupti_launches(uint32_t number) { return among(launches, COUNT(launches), number); }

bool cupti_asks(uint32_t number) { return among(questions, COUNT(questions), number); }

bool cupti_switch_launches(cupti_switch function, bool on) {
  if (function == NULL || function(launches[0], on) != 0) return false;
  for (size_t i = 1; i < COUNT(launches); ++i) function(launches[i], on);
  return true;
}

void cupti_leave_out_questions(cupti_switch function) {
  for (size_t i = 0; function != NULL && i < COUNT(questions); ++i) function(questions[i], false);
}
