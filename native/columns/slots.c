#include "slots.h"

#include <string.h>

#include "file_format.h"

uint32_t msp_slots_read(const char *slots, size_t count, uint32_t thread, msp_slot_columns to) {
  for (size_t i = 0; i < count; ++i) {
    msp_slot slot;
    memcpy(&slot, slots + i * sizeof slot, sizeof slot);
    if (slot.kind == MSP_KIND_THREAD) thread = (uint32_t)slot.arg;
    to.start_ns[i] = (int64_t)slot.start_ns;
    to.end_ns[i] = (int64_t)slot.end_ns;
    to.arg[i] = slot.arg;
    to.id[i] = slot.name;
    to.thread[i] = thread;
    to.kind[i] = slot.kind;
    to.category[i] = slot.category;
    to.flags[i] = slot.flags;
  }
  return thread;
}
