/* The slots of a store as columns. Knows nothing of Python. */
#ifndef MSP_SLOTS_H
#define MSP_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  int64_t *start_ns, *end_ns;
  uint64_t *arg;
  uint32_t *id, *thread;
  uint8_t *kind, *category, *flags;
} msp_slot_columns;

/* How raw times become nanoseconds since the epoch: see analysis/clock.py. Knots are by time, one at least. */
typedef struct {
  const int64_t *raw, *offset;
  const double *slope; /* from a knot to the next one */
  int64_t count;
} msp_knots;

/* Return a raw time as nanoseconds since the epoch. `knot` is where the last time was, at first 0: most are near. */
int64_t msp_since_epoch(const msp_knots *knots, int64_t raw, int64_t *knot);

/* The selection of slots, and the meaning of their numbers. Times are raw, except for `from_ns` and `until_ns`. */
typedef struct {
  const uint32_t *names; /* by id */
  size_t name_count;
  uint32_t lost; /* name of ids that have none */
  msp_knots knots;
  int64_t last_ns;                  /* the end of spans that have none */
  int64_t window_start, window_end; /* of the run; 0: no bound */
  int64_t from_ns, until_ns;        /* spans that begin from then on, and before */
  bool fine;                        /* fine-grained ones alone */
} msp_wanted;

typedef struct {
  int64_t *start_ns, *end_ns;
  uint64_t *arg;
  uint32_t *name, *thread;
  uint8_t *category, *flags, *unfinished;
} msp_span_columns;

/* Fill the columns from `row` on with the spans among `count` slots that are wanted; one that ends before it starts is
 * none. The thread of a span is that of the last MSP_KIND_THREAD slot before it, and `thread` before the first one.
 * Returns the row after the last one. */
size_t msp_spans_read(const char *slots, size_t count, uint32_t *thread, const msp_wanted *wanted, msp_span_columns to,
                      size_t row);

/* A summary of the fine-grained spans that are left out. Raw times; without any, INT64_MAX for the first and
 * INT64_MIN for the last ones. */
typedef struct {
  uint64_t count, lost;                     /* of these, whose name is missing */
  int64_t first_ns, last_start_ns, last_ns; /* first and last start, last end */
} msp_fine;

/* Fill the columns from `row` on with all slots but the fine-grained spans of the window: these are added up in `fine`,
 * and the start of each one whose number there is a multiple of `every` goes to `starts`, which `start_count` numbers.
 * Returns how many rows were filled. */
size_t msp_slots_coarse(const char *slots, size_t count, uint32_t *thread, const msp_wanted *wanted,
                        msp_slot_columns to, size_t row, msp_fine *fine, uint64_t every, int64_t *starts,
                        size_t *start_count);

#endif
