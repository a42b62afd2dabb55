#include "slots.h"

#include <math.h>
#include <string.h>

#include "file_format.h"

static inline msp_slot slot_at(const char *slots, size_t i) {
  msp_slot slot;
  memcpy(&slot, slots + i * sizeof slot, sizeof slot);
  return slot;
}

static inline void put(msp_slot_columns to, size_t row, const msp_slot *slot, uint32_t thread) {
  to.start_ns[row] = (int64_t)slot->start_ns;
  to.end_ns[row] = (int64_t)slot->end_ns;
  to.arg[row] = slot->arg;
  to.id[row] = slot->name;
  to.thread[row] = thread;
  to.kind[row] = slot->kind;
  to.category[row] = slot->category;
  to.flags[row] = slot->flags;
}

/* Return whether a slot can have this time. In a slot (record) with another time, the time is damaged. */
static inline bool possible(uint64_t time, const msp_wanted *wanted) {
  return time >= wanted->earliest_ns && time <= wanted->latest_ns;
}

/* Return whether a slot is a span to be read: it is undamaged, begins in the time window, and does not end before it
 * starts. If the span ends after the window, set its end to the end of the window. */
static inline bool is_span(msp_slot *slot, const msp_wanted *wanted) {
  if (slot->kind != MSP_KIND_OPEN && slot->kind != MSP_KIND_SPAN) return false;
  if (!possible(slot->start_ns, wanted) || slot->end_ns > wanted->latest_ns) return false;
  int64_t start = (int64_t)slot->start_ns;
  if (wanted->window_start != 0) {
    if (start < wanted->window_start) return false;
    if (wanted->window_end != 0) {
      if (start >= wanted->window_end) return false;
      if ((int64_t)slot->end_ns > wanted->window_end) slot->end_ns = (uint64_t)wanted->window_end;
    }
  }
  return slot->kind == MSP_KIND_OPEN || (int64_t)slot->end_ns >= start;
}

int64_t msp_since_epoch(const msp_knots *knots, int64_t raw, int64_t *knot) {
  if (knots->count == 1) return raw + knots->offset[0];
  int64_t at = *knot;
  while (at > 0 && raw < knots->raw[at]) --at;
  while (at + 1 < knots->count && raw >= knots->raw[at + 1]) ++at;
  *knot = at;
  int64_t since = raw > knots->raw[at] ? raw - knots->raw[at] : 0;
  return raw + knots->offset[at] + (int64_t)rint(knots->slope[at] * (double)since);
}

size_t msp_spans_read(const char *slots, size_t count, uint32_t *thread, const msp_wanted *wanted, msp_span_columns to,
                      size_t row) {
  int64_t start_knot = 0, end_knot = 0;
  for (size_t i = 0; i < count; ++i) {
    msp_slot slot = slot_at(slots, i);
    if (slot.kind == MSP_KIND_THREAD) *thread = (uint32_t)slot.arg;
    if (wanted->fine && slot.category < MSP_CATEGORY_FINE) continue;
    if (!is_span(&slot, wanted)) continue;
    int64_t start = msp_since_epoch(&wanted->knots, (int64_t)slot.start_ns, &start_knot);
    if (start < wanted->from_ns || start >= wanted->until_ns) continue;
    bool open = slot.kind == MSP_KIND_OPEN;
    to.start_ns[row] = start;
    to.end_ns[row] = msp_since_epoch(&wanted->knots, open ? wanted->last_ns : (int64_t)slot.end_ns, &end_knot);
    to.arg[row] = slot.arg;
    to.name[row] = slot.name < wanted->name_count ? wanted->names[slot.name] : wanted->lost;
    to.thread[row] = *thread;
    to.category[row] = slot.category;
    to.flags[row] = slot.flags;
    to.unfinished[row] = open;
    ++row;
  }
  return row;
}

size_t msp_slots_coarse(const char *slots, size_t count, uint32_t *thread, const msp_wanted *wanted,
                        msp_slot_columns to, size_t row, msp_fine *fine, uint64_t every, int64_t *starts,
                        size_t *start_count) {
  for (size_t i = 0; i < count; ++i) {
    msp_slot slot = slot_at(slots, i);
    if (slot.kind == MSP_KIND_THREAD) *thread = (uint32_t)slot.arg;
    msp_slot whole = slot;
    if (slot.category < MSP_CATEGORY_FINE || !is_span(&slot, wanted)) {
      put(to, row++, &whole, *thread);
      continue;
    }
    int64_t start = (int64_t)slot.start_ns, end = (int64_t)slot.end_ns;
    if (fine->count++ % every == 0) starts[(*start_count)++] = start;
    fine->lost += slot.name >= wanted->name_count || wanted->names[slot.name] == wanted->lost;
    if (start < fine->first_ns) fine->first_ns = start;
    if (start > fine->last_start_ns) fine->last_start_ns = start;
    if (end > fine->last_ns) fine->last_ns = end;
  }
  return row;
}
