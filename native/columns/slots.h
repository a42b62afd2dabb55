/* The slots of a store as columns. Knows nothing of Python. */
#ifndef MSP_SLOTS_H
#define MSP_SLOTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  int64_t *start_ns, *end_ns;
  uint64_t *arg;
  uint32_t *id, *thread;
  uint8_t *kind, *category, *flags;
} msp_slot_columns;

/* Fill the columns with `count` slots. The thread of a slot is that of the last MSP_KIND_THREAD slot before it, and
 * `thread` before the first one; returns the last one's. */
uint32_t msp_slots_read(const char *slots, size_t count, uint32_t thread, msp_slot_columns to);

#endif
