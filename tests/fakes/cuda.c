/* A fake of CUDA's driver, libcuda.so.1, that needs no device, with the functions that a tracing tool calls. */
#include <stdlib.h>

#define NOT_INITIALIZED 3

static int initialised;

int cuInit(unsigned flags) {
  (void)flags;
  initialised = 1;
  return 0;
}

int cuDeviceGetCount(int *count) {
  if (!initialised) return NOT_INITIALIZED;
  const char *devices = getenv("FAKE_CUDA_DEVICES");
  *count = devices != NULL ? atoi(devices) : 1;
  return 0;
}

int cuDriverGetVersion(int *version) {
  const char *said = getenv("FAKE_CUDA_VERSION");
  *version = said != NULL ? atoi(said) : 12080;
  return 0;
}
