/* The system's counters of this process and its machine, which the helper thread reads at a fixed rate.
 *
 * The helper takes no lock of the job, not even the GIL. Its descriptors are in a table of its own, out of the job's
 * way.
 */
#ifndef MSP_METRICS_H
#define MSP_METRICS_H

#include <stdbool.h>
#include <stdint.h>

/* cffi:begin */

/* One number of a file: number `number`, from 0, of the first line that begins with `key`; -1: the last number. A path
 * that is not absolute is a source of its own: "usage", numbers of getrusage, and "threads", for each thread
 * the numbers of its schedstat. */
typedef struct {
  const char *path;
  const char *key;
  int32_t number;
  uint32_t name; /* id of the string that names it */
  bool own;      /* of the process: fork children read it, too */
  bool seldom;   /* takes long: every two seconds at most */
} msp_metric;

/* Read these numbers from now on, all that belong to a path one after the other; `count` 0: none. `sample` names a
 * number of its own, for how long reading ran. Returns false where there is no memory. */
bool msp_metrics_read(const msp_metric *rows, uint32_t count, uint32_t sample, uint32_t period_ms);

/* cffi:end */

/* Read the numbers that are due at this time of CLOCK_MONOTONIC; return when the next are due. Only the helper calls.
 */
uint64_t msp_metrics_sample(uint64_t now);

void msp_metrics_after_fork(void);

#endif
