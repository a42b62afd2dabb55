/* The base of AscendCL without a device: what a tracing tool asks of libascendcl.so.
 *
 * FAKE_ACL_DEVICE is the number of the NPU that every thread has in use, -1 for none.
 */
#include <stdint.h>
#include <stdlib.h>

#define NO_CONTEXT 107002

int aclrtGetDevice(int32_t *device) {
  const char *number = getenv("FAKE_ACL_DEVICE");
  if (number != NULL && atoi(number) < 0) return NO_CONTEXT;
  *device = number != NULL ? atoi(number) : 0;
  return 0;
}
