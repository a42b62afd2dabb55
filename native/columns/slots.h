/* Decode the slots (the records of 32 bytes) of a store into columns. Does not use Python's API. */
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

/* The points of the line by which raw times are converted to nanoseconds since the epoch (analysis/model/clock.py).
 * There is at least one; they are sorted by time. */
typedef struct {
  const int64_t *raw, *offset;
  const double *slope; /* slope from each knot to the next one */
  int64_t count;
} msp_knots;

/* Convert a raw time to nanoseconds since the epoch. The search for the point (knot) before this time begins at `knot`,
 * which is 0 in the first call. The function stores there the knot that it finds. */
int64_t msp_since_epoch(const msp_knots *knots, int64_t raw, int64_t *knot);

/* Which slots of a store to decode, and what the numbers in them mean. All times are times of the store's clock, except
 * `from_ns` and `until_ns`. */
typedef struct {
  const uint32_t *names; /* names by their ids in the store */
  size_t name_count;
  uint32_t lost; /* name for ids without a name */
  msp_knots knots;
  int64_t last_ns;                  /* the end that spans without an end get */
  int64_t window_start, window_end; /* time window to read; 0: no bound */
  int64_t from_ns, until_ns;        /* spans that begin at or after `from_ns` and before `until_ns` */
  bool fine;                        /* read only fine-grained spans */
  uint64_t earliest_ns, latest_ns;  /* earliest and latest time that an undamaged slot can have */
} msp_wanted;

typedef struct {
  int64_t *start_ns, *end_ns;
  uint64_t *arg;
  uint32_t *name, *thread;
  uint8_t *category, *flags, *unfinished;
} msp_span_columns;

/* Read the wanted spans among `count` slots, and fill the columns with them from `row` on. Spans that end before they
 * start are left out. The last MSP_KIND_THREAD slot before a span names the span's thread; before the first
 * MSP_KIND_THREAD slot, the thread is `thread`. Returns the row after the last filled one. */
size_t msp_spans_read(const char *slots, size_t count, uint32_t *thread, const msp_wanted *wanted, msp_span_columns to,
                      size_t row);

/* A summary of the fine-grained spans that are left out. Times are those of the store's clock. If there are no such
 * spans, the first time is INT64_MAX, and the other times are INT64_MIN. */
typedef struct {
  uint64_t count, lost;                     /* number of spans, and of those without a name */
  int64_t first_ns, last_start_ns, last_ns; /* first start, last start, last end */
} msp_fine;

/* Read all slots except the fine-grained spans of the time window, and fill the columns with them from `row` on. The
 * fine-grained spans are added up in `fine`. The start of every `every`th one is appended to `starts`, which has
 * `start_count` entries. Returns the row after the last filled one. */
size_t msp_slots_coarse(const char *slots, size_t count, uint32_t *thread, const msp_wanted *wanted,
                        msp_slot_columns to, size_t row, msp_fine *fine, uint64_t every, int64_t *starts,
                        size_t *start_count);

#endif
