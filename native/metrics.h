/* What the system counts of this process and its machine, read at a rate by the helper thread.
 *
 * No lock of the job's is taken, the GIL included, and no descriptor is in the job's way: the helper has its own.
 */
#ifndef MSP_METRICS_H
#define MSP_METRICS_H

#include <stdbool.h>
#include <stdint.h>

/* cffi:begin */

/* One number of a file: of the first line that begins with `key`, number `number` of it, from 0; -1: the last one. A
 * path that is no absolute one is a source of its own: "usage", numbers of getrusage, and "threads", for each thread
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

/* Read what is due at this time of CLOCK_MONOTONIC; return when the next is due. Called by the helper alone. */
uint64_t msp_metrics_sample(uint64_t now);

void msp_metrics_after_fork(void);

#endif
