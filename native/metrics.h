/* The operating system's counters of this process and its machine. The recorder's helper thread reads them at a fixed
 * rate.
 *
 * The helper thread takes no lock of the job, not even the GIL. It has a table of file descriptors of its own, so that
 * the files that it opens do not appear in the job.
 */
#ifndef MSP_METRICS_H
#define MSP_METRICS_H

#include <stdbool.h>
#include <stdint.h>

/* cffi:begin */

/* One counter. `path` is a file, "usage" for getrusage, or "threads" for the file `schedstat` of each thread. In a
 * file, the first line that begins with `key` has the counter; `number` selects one of the numbers of this line (from
 * 0; -1: the last one). In the other sources, `number` selects the counter. */
typedef struct {
  const char *path;
  const char *key;
  int32_t number;
  uint32_t name; /* id of the string that is its name */
  bool own;      /* a counter of the process, not of the machine: fork children read it, too */
  bool seldom;   /* takes long to read: it is read every two seconds at most */
} msp_metric;

/* Read these counters from now on, every `period_ms`; with `count` 0, read none. Rows with the same path must be
 * adjacent. One more counter is the processor time that the reading takes; `sample` is the id of this counter's name.
 * The pause after a reading is at least `rest` times as long as this time. Returns false if there is not enough memory.
 */
bool msp_metrics_read(const msp_metric *rows, uint32_t count, uint32_t sample, uint32_t period_ms, uint32_t rest);

/* cffi:end */

/* Read the counters if they are due at time `now` of CLOCK_MONOTONIC. Returns the time at which they are due next. Only
 * the helper thread calls this. */
uint64_t msp_metrics_sample(uint64_t now);

void msp_metrics_after_fork(void);

#endif
