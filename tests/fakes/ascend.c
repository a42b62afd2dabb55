/* Fakes of libraries of CANN and its driver that need no device, with the functions that msPTI and a tracing tool call.
 * One of the macros ALOG, PROFAPI, HAL and ACL chooses the library. With the macro OLD, HAL lacks a function. The
 * variable FAKE_NPUS holds the number of devices.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#define NO_CONTEXT 107002

#ifdef ALOG
int CheckLogLevelForC(int module, int level) { return module + level == 0; }

void DlogInnerForC(int module, int level, const char *format, ...) {
  (void)module;
  (void)level;
  (void)format;
}
#endif

#ifdef PROFAPI
int MsprofRegisterProfileCallback(int32_t module, void *callback, uint32_t size) {
  return module < 0 || (callback == NULL && size != 0);
}

int profSetProfCommand(void *command, uint32_t size) { return command == NULL && size != 0; }
#endif

#ifdef HAL
int drvGetDevNum(uint32_t *count) {
  const char *devices = getenv("FAKE_NPUS");
  *count = devices != NULL ? (uint32_t)atoi(devices) : 1;
  return 0;
}

int halGetDeviceInfo(uint32_t device, int32_t module, int32_t what, int64_t *value) {
  *value = 0;
  return device + (uint32_t)module + (uint32_t)what == UINT32_MAX;
}

int halGetAPIVersion(int *version) {
  *version = 0x071905;
  return 0;
}

int drvGetDevIDs(uint32_t *devices, uint32_t count) {
  for (uint32_t device = 0; device < count; ++device) devices[device] = device;
  return 0;
}

/* The functions for channels of a device; the fake device has no channels. */
int prof_drv_get_channels(unsigned device, void *channels) { return device > 0 || channels == NULL; }
int prof_drv_start(unsigned device, unsigned channel, void *what) { return device > 0 || channel > 0 || what == NULL; }
int prof_stop(unsigned device, unsigned channel) { return device > 0 || channel > 0; }
int prof_channel_read(unsigned device, unsigned channel, char *to, unsigned size) {
  return (int)(device + channel + size) * (to == NULL);
}
int prof_channel_poll(void *channels, int count, int seconds) { return channels == NULL ? count + seconds : 0; }

#ifndef OLD
int halProfDataFlush(unsigned device, unsigned channel, unsigned *size) {
  *size = 0;
  return device > 0 || channel > 0;
}
#endif
#endif

#ifdef ACL
/* Load the driver, to which the real library is linked. */
__attribute__((constructor)) static void load(void) { dlopen("libascend_hal.so", RTLD_NOW | RTLD_GLOBAL); }

int aclInit(const char *path) { return path != NULL && *path == 0; }

/* Return the calling thread's device: FAKE_ACL_DEVICE, or an error if that is -1. */
int aclrtGetDevice(int32_t *device) {
  const char *number = getenv("FAKE_ACL_DEVICE");
  if (number != NULL && atoi(number) < 0) return NO_CONTEXT;
  *device = number != NULL ? atoi(number) : 0;
  return 0;
}

int aclrtProfTrace(void *what, int32_t size, void *stream) { return what == NULL && size > 0 && stream == NULL; }
#endif
