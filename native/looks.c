#include "looks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file_format.h"
#include "hot.h"

#define WAITED_LEAST_NS 4000000u /* a thread that did not run for this time reads its wait time, which takes 8 us */

/* Return how long the calling thread has waited for a processor so far; UINT64_MAX if the system does not report it.
 * This is the second number of the file `schedstat`. The file is opened each time: if a descriptor stayed open, the job
 * could close it, and use its number for another file. */
static uint64_t waited_so_far(void) {
  char text[64];
  int descriptor = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return UINT64_MAX;
  ssize_t length = read(descriptor, text, sizeof text - 1);
  close(descriptor);
  if (length <= 0) return UINT64_MAX;
  text[length] = 0;
  char *second = strchr(text, ' ');
  return second == NULL ? UINT64_MAX : strtoull(second, NULL, 10);
}

uint32_t msp_looks_waited(msp_looks *looks, uint64_t now, uint64_t ran) {
  bool first = looks->since_ns == 0;
  if (!first && now - looks->since_ns < ran - looks->since_ran_ns + WAITED_LEAST_NS) return MSP_NOT_READ;
  uint64_t so_far = waited_so_far();
  if (so_far == UINT64_MAX) {
    looks->since_ns = UINT64_MAX / 2; /* the file cannot be read: do not try again */
    return MSP_NOT_READ;
  }
  uint64_t since = (so_far - looks->waited_ns) / 1000;
  looks->since_ns = now;
  looks->since_ran_ns = ran;
  looks->waited_ns = so_far;
  return first || since >= MSP_NOT_READ ? MSP_NOT_READ : (uint32_t)since;
}

/* Return whether a step is of the usual length, ns, and note its length. A longer length becomes usual after some
 * steps. */
static bool usual(msp_looks *looks, uint64_t length) {
  bool longer = looks->step_ns != 0 && length > looks->step_ns + looks->step_ns / 2;
  looks->step_ns = longer ? looks->step_ns + looks->step_ns / 4 + 1 : length;
  return !longer || length < MSP_REST_QUIET_NS;
}

MSP_HOT bool msp_looks_due(msp_looks *looks, uint64_t before, uint64_t now, bool rests) {
  bool alone = rests && before != 0 && before == looks->stepped_ns && usual(looks, now - before);
  looks->stepped_ns = now;
  return now - looks->looked_ns >= (alone ? MSP_REST_STEP_NS : MSP_QUIET_NS);
}
