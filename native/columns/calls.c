#include "calls.h"

#include <stdlib.h>

#include "file_format.h"

/* The modules that are open (running) on a thread at some moment, from the outermost to the innermost. */
typedef struct {
  int64_t *ends;
  uint32_t *names;
  int64_t count, room;
} open_modules;

static bool enter(open_modules *open, int64_t end, uint32_t name) {
  if (open->count == open->room) {
    int64_t room = open->room * 2 + 64;
    int64_t *ends = realloc(open->ends, (size_t)room * sizeof *ends);
    if (ends != NULL) open->ends = ends;
    uint32_t *names = realloc(open->names, (size_t)room * sizeof *names);
    if (names != NULL) open->names = names;
    if (ends == NULL || names == NULL) return false;
    open->room = room;
  }
  if (open->count > 0 && open->ends[open->count - 1] < end) end = open->ends[open->count - 1];
  open->ends[open->count] = end;
  open->names[open->count++] = name;
  return true;
}

static inline void leave(open_modules *open, int64_t time) {
  while (open->count > 0 && open->ends[open->count - 1] <= time) --open->count;
}

/* Compute the results for the operators of one thread. Its spans are at the places from `first` up to `end` in the
 * sorted order. */
static bool call_thread(const msp_called *of, const uint32_t *order, int64_t first, int64_t end, open_modules *open,
                        uint32_t *module, uint8_t *inner) {
  const int64_t *starts = of->spans.start_ns, *ends = of->spans.end_ns;
  int64_t next = first; /* place of the next module to enter */
  int64_t last = -1;    /* the operator before; the next one shows whether it is inner */
  open->count = 0;
  for (int64_t place = first; place <= end; ++place) {
    if (place < end && of->category[order[place]] != MSP_CATEGORY_OP) continue;
    if (last >= 0) {
      int64_t until = ends[last] > starts[last] ? ends[last] : starts[last] + 1;
      inner[last] = place == end || starts[order[place]] >= until;
    }
    if (place == end) break;
    uint32_t row = order[place];
    for (; next < end && starts[order[next]] <= starts[row]; ++next) {
      uint32_t other = order[next];
      if (of->category[other] != MSP_CATEGORY_MODULE || ends[other] <= starts[other]) continue;
      leave(open, starts[other]);
      if (!enter(open, ends[other], of->name[other])) return false;
    }
    leave(open, starts[row]);
    module[row] = open->count > 0 ? open->names[open->count - 1] : MSP_NO_NAME;
    last = row;
  }
  return true;
}

bool msp_calls(int64_t count, const msp_called *of, uint32_t *module, uint8_t *inner) {
  uint32_t *order = malloc(((size_t)count + 1) * sizeof *order);
  open_modules open = {0};
  bool done = order != NULL && msp_order(count, &of->spans, order);
  for (int64_t first = 0, end; done && first < count; first = end) {
    uint64_t lane = of->spans.lane[order[first]];
    for (end = first + 1; end < count && of->spans.lane[order[end]] == lane;) ++end;
    done = call_thread(of, order, first, end, &open, module, inner);
  }
  free(order);
  free(open.ends);
  free(open.names);
  return done;
}
