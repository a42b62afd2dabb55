#include "cupti_calls.h"

#include <stddef.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* calls of the driver; `_ptsz` is the variant for a default stream of each thread */
static const uint16_t launches[] = {
    216, /* cuMemsetD8Async */
    218, /* cuMemsetD16Async */
    220, /* cuMemsetD32Async */
    277, /* cuMemcpyHtoDAsync_v2 */
    279, /* cuMemcpyDtoHAsync_v2 */
    281, /* cuMemcpyDtoDAsync_v2 */
    289, /* cuMemcpy2DAsync_v2 */
    291, /* cuMemcpy3DAsync_v2 */
    306, /* cuMemcpyAsync */
    307, /* cuLaunchKernel */
    319, /* cuMemcpyPeerAsync */
    418, /* cuMemcpyAsync_ptsz */
    421, /* cuMemcpyHtoDAsync_v2_ptsz */
    422, /* cuMemcpyDtoHAsync_v2_ptsz */
    423, /* cuMemcpyDtoDAsync_v2_ptsz */
    442, /* cuLaunchKernel_ptsz */
    477, /* cuLaunchCooperativeKernel */
    478, /* cuLaunchCooperativeKernel_ptsz */
    514, /* cuGraphLaunch */
    515, /* cuGraphLaunch_ptsz */
    652, /* cuLaunchKernelEx */
    653, /* cuLaunchKernelEx_ptsz */
};

/* calls of the runtime; a name ends with the version of CUDA that introduced it */
static const uint16_t questions[] = {
    10,  /* cudaGetLastError_v3020 */
    11,  /* cudaPeekAtLastError_v3020 */
    12,  /* cudaGetErrorString_v3020 */
    16,  /* cudaSetDevice_v3020 */
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
  if (function == NULL) return false;
  for (size_t i = 0; i < COUNT(launches); ++i) {
    if (function(launches[i], on) == 0 || !on) continue;
    while (i-- > 0) function(launches[i], false);
    return false;
  }
  return true;
}

void cupti_leave_out_questions(cupti_switch function) {
  for (size_t i = 0; function != NULL && i < COUNT(questions); ++i) function(questions[i], false);
}
