#include "device_records.h"

#include <string.h>

#include "device_format.h"
#include "file_format.h"

static inline uint32_t low(uint64_t word) { return (uint32_t)word; }

static inline uint32_t high(uint64_t word) { return (uint32_t)(word >> 32); }

static inline uint32_t text(const msp_wanted *wanted, uint32_t id) {
  return id < wanted->name_count ? wanted->names[id] : wanted->lost;
}

static void put(const msp_device_rows *to, size_t row, const msp_slot *head, const msp_slot *place,
                const msp_wanted *wanted) {
  to->type[row] = head->category;
  to->source[row] = head->flags;
  if (to->native_tid != NULL) to->native_tid[row] = high(head->arg);
  to->name[row] = text(wanted, head->name);
  to->detail[row] = text(wanted, place->name);
  to->correlation[row] = low(head->arg);
  to->device[row] = low(place->start_ns);
  to->stream[row] = high(place->start_ns);
  to->context[row] = low(place->end_ns);
  to->graph[row] = high(place->end_ns);
  to->amount[row] = place->arg;
}

static inline bool runs(uint8_t type) {
  return type == MSP_DEVICE_KERNEL || type == MSP_DEVICE_COMMUNICATION || type == MSP_DEVICE_GRAPH;
}

void msp_device_count(const char *slots, size_t count, msp_device_counts *of) {
  for (size_t i = 0; i < count; ++i) {
    msp_slot slot;
    memcpy(&slot, slots + i * sizeof slot, sizeof slot);
    if (slot.kind != MSP_KIND_DEVICE) continue;
    ++*(slot.category == MSP_DEVICE_API ? &of->calls : runs(slot.category) ? &of->ran : &of->others);
  }
}

void msp_device_read(const char *slots, size_t count, const msp_wanted *wanted, const msp_device_calls *calls,
                     const msp_device_rows *ran, const msp_device_rows *others, msp_device_counts *at) {
  int64_t start_knot = 0, end_knot = 0;
  for (size_t i = 0; i < count; ++i) {
    msp_slot head, place = {0};
    memcpy(&head, slots + i * sizeof head, sizeof head);
    if (head.kind != MSP_KIND_DEVICE) continue;
    int64_t start = msp_since_epoch(&wanted->knots, (int64_t)head.start_ns, &start_knot);
    int64_t end = msp_since_epoch(&wanted->knots, (int64_t)head.end_ns, &end_knot);
    if (head.category == MSP_DEVICE_API) {
      calls->name[at->calls] = text(wanted, head.name);
      calls->correlation[at->calls] = low(head.arg);
      calls->native_tid[at->calls] = high(head.arg);
      calls->start_ns[at->calls] = start;
      calls->end_ns[at->calls++] = end;
      continue;
    }
    if (i + 1 < count) memcpy(&place, slots + (i + 1) * sizeof place, sizeof place);
    if (place.kind != MSP_KIND_DEVICE_PLACE) place = (msp_slot){0};
    bool ran_there = runs(head.category);
    const msp_device_rows *to = ran_there ? ran : others;
    size_t row = ran_there ? at->ran++ : at->others++;
    put(to, row, &head, &place, wanted);
    to->start_ns[row] = start;
    to->end_ns[row] = end;
  }
}
