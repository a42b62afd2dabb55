#include "nesting.h"

#include <stdlib.h>
#include <string.h>

/* Return whether span a comes after span b in the sorted order (lane, start, longest first); false if they are
 * equal. */
static inline bool after(const msp_spans *of, uint32_t a, uint32_t b) {
  if (of->lane[a] != of->lane[b]) return of->lane[a] > of->lane[b];
  if (of->start_ns[a] != of->start_ns[b]) return of->start_ns[a] > of->start_ns[b];
  return of->end_ns[a] < of->end_ns[b];
}

/* Sort spans by merging sorted runs. This is quick, because the spans in each file of a thread are in order already. */
bool msp_order(int64_t count, const msp_spans *of, uint32_t *order) {
  for (int64_t i = 0; i < count; ++i) order[i] = (uint32_t)i;
  int64_t runs = count > 0;
  for (int64_t i = 1; i < count; ++i) runs += after(of, order[i - 1], order[i]);
  if (runs <= 1) return true;
  int64_t *bounds = malloc((size_t)(runs + 1) * sizeof *bounds);
  uint32_t *other = malloc((size_t)count * sizeof *other);
  if (bounds == NULL || other == NULL) {
    free(bounds);
    free(other);
    return false;
  }
  int64_t run = 0;
  bounds[run++] = 0;
  for (int64_t i = 1; i < count; ++i) {
    if (after(of, order[i - 1], order[i])) bounds[run++] = i;
  }
  bounds[runs] = count;
  uint32_t *from = order, *to = other;
  while (runs > 1) {
    int64_t merged = 0;
    for (run = 0; run < runs; run += 2) {
      int64_t a = bounds[run], middle = bounds[run + 1], place = a;
      int64_t end = run + 2 <= runs ? bounds[run + 2] : middle, b = middle;
      while (a < middle && b < end) to[place++] = after(of, from[a], from[b]) ? from[b++] : from[a++];
      memcpy(to + place, from + a, (size_t)(middle - a) * sizeof *to);
      memcpy(to + place + (middle - a), from + b, (size_t)(end - b) * sizeof *to);
      bounds[merged++] = bounds[run];
    }
    bounds[merged] = count;
    runs = merged;
    uint32_t *swap = from;
    from = to;
    to = swap;
  }
  if (from != order) memcpy(order, from, (size_t)count * sizeof *order);
  free(bounds);
  free(other);
  return true;
}

/* The spans of a lane that are open at some moment. `ends` has their ends, the latest first. `begun` has spans in the
 * order of their starts. The last span of `begun` is always open. An earlier span may have ended; it is removed when it
 * becomes the last one. */
typedef struct {
  int64_t *ends;
  uint32_t *begun;
  int64_t count, begun_count, room;
} open_spans;

static bool push(open_spans *open, uint32_t span, int64_t end) {
  if (open->begun_count == open->room) {
    int64_t room = open->room * 2 + 64;
    int64_t *ends = realloc(open->ends, (size_t)room * sizeof *ends);
    if (ends != NULL) open->ends = ends;
    uint32_t *begun = realloc(open->begun, (size_t)room * sizeof *begun);
    if (begun != NULL) open->begun = begun;
    if (ends == NULL || begun == NULL) return false;
    open->room = room;
  }
  int64_t place = open->count++; /* few ends have to be moved, because few spans overlap without nesting */
  while (place > 0 && open->ends[place - 1] < end) {
    open->ends[place] = open->ends[place - 1];
    --place;
  }
  open->ends[place] = end;
  open->begun[open->begun_count++] = span;
  return true;
}

static inline bool ended(const msp_spans *of, uint32_t row, int64_t time) {
  int64_t start = of->start_ns[row], end = of->end_ns[row];
  return (end > start ? end : start + 1) <= time;
}

bool msp_nest(int64_t count, const msp_spans *of, uint32_t *order, uint16_t *depth, uint32_t *parent) {
  const uint64_t *lane = of->lane;
  const int64_t *start_ns = of->start_ns, *end_ns = of->end_ns;
  if (!msp_order(count, of, order)) return false;
  open_spans open = {0};
  bool done = true;
  for (int64_t i = 0; i < count && done; ++i) {
    uint32_t row = order[i];
    int64_t start = start_ns[row], end = end_ns[row];
    if (i > 0 && lane[row] != lane[order[i - 1]]) open.count = open.begun_count = 0;
    while (open.count > 0 && open.ends[open.count - 1] <= start) --open.count;
    while (open.begun_count > 0 && ended(of, order[open.begun[open.begun_count - 1]], start)) --open.begun_count;
    depth[i] = (uint16_t)(open.count < MSP_DEEPEST ? open.count : MSP_DEEPEST);
    parent[i] = open.begun_count == 0 ? UINT32_MAX : open.begun[open.begun_count - 1];
    done = push(&open, (uint32_t)i, end > start ? end : start + 1);
  }
  free(open.ends);
  free(open.begun);
  return done;
}

void msp_inside(int64_t count, const uint32_t *parent, const int64_t *start_ns, const int64_t *end_ns,
                const uint8_t *taken, int64_t *inside) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t outer = parent[i];
    if (outer >= count || (taken != NULL && !taken[i])) continue;
    inside[outer] += (end_ns[i] < end_ns[outer] ? end_ns[i] : end_ns[outer]) - start_ns[i];
  }
}
