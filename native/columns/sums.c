#include "sums.h"

#include <stdlib.h>
#include <string.h>

#include "file_format.h"

/* A table of sums by key. `places` is a hash table with open addressing. An entry is the index of a sum plus one; 0
 * means that the entry is free. */
typedef struct {
  msp_sums *sums;
  size_t room;
  uint32_t *places;
  size_t mask;
} sum_table;

static size_t place_of(const sum_table *table, uint64_t key) {
  size_t place = (size_t)((key * 0x9E3779B97F4A7C15ULL) >> 32) & table->mask;
  while (table->places[place] != 0 && table->sums->sums[table->places[place] - 1].key != key) {
    place = (place + 1) & table->mask;
  }
  return place;
}

static bool grow(sum_table *table) {
  size_t room = table->room * 2 + 256, places = 1;
  while (places < room * 2) places *= 2;
  msp_sum *sums = realloc(table->sums->sums, room * sizeof *sums);
  if (sums == NULL) return false;
  table->sums->sums = sums;
  uint32_t *next = calloc(places, sizeof *next);
  if (next == NULL) return false;
  free(table->places);
  table->places = next;
  table->mask = places - 1;
  table->room = room;
  for (size_t i = 0; i < table->sums->count; ++i) next[place_of(table, sums[i].key)] = (uint32_t)i + 1;
  return true;
}

static msp_sum *sum_of(sum_table *table, uint64_t key) {
  size_t place = place_of(table, key);
  if (table->places[place] == 0) {
    if (table->sums->count == table->room) {
      if (!grow(table)) return NULL;
      place = place_of(table, key);
    }
    table->sums->sums[table->sums->count] = (msp_sum){.key = key, .min_ns = INT64_MAX, .max_ns = INT64_MIN};
    table->places[place] = (uint32_t)++table->sums->count;
  }
  return &table->sums->sums[table->places[place] - 1];
}

static void add(msp_sum *sum, int64_t duration, int64_t inside) {
  uint64_t length = (uint64_t)duration;
  /* the square of a 64-bit number has 128 bits; compute it from the two halves of the number */
  uint64_t low = length & UINT32_MAX, high = length >> 32, middle = low * high;
  uint64_t square_low = low * low + (middle << 33), square_high = high * high + (middle >> 31);
  square_high += square_low < low * low;
  sum->squares_low += square_low;
  sum->squares_high += square_high + (sum->squares_low < square_low);
  sum->count += 1;
  sum->total_ns += duration;
  sum->self_ns += duration - inside;
  if (duration < sum->min_ns) sum->min_ns = duration;
  if (duration > sum->max_ns) sum->max_ns = duration;
}

static void mark_open(int64_t count, const msp_spans *of, const uint32_t *order, uint8_t *open) {
  int64_t latest = 0;
  for (int64_t place = count - 1; place >= 0; --place) {
    uint32_t row = order[place];
    if (place == count - 1 || of->lane[row] != of->lane[order[place + 1]]) latest = of->start_ns[row];
    open[row] = of->end_ns[row] > latest;
  }
}

/* Return whether an operator repeats its parent: it is the only child of an operator with the same name. Both then
 * count as one call. */
static bool is_repeated(int64_t place, const uint32_t *order, const uint32_t *parent, const uint32_t *children,
                        const uint64_t *key) {
  if (parent[place] == UINT32_MAX || children[parent[place]] != 1) return false;
  uint64_t own = key[order[place]];
  return (uint8_t)own == MSP_CATEGORY_OP && own == key[order[parent[place]]];
}

bool msp_sum_up(int64_t count, const msp_spans *of, const uint64_t *key, const uint8_t *counted, uint8_t *open,
                msp_sums *to) {
  size_t rows = (size_t)count + 1;
  uint32_t *order = malloc(rows * sizeof *order), *parent = malloc(rows * sizeof *parent);
  uint16_t *depth = malloc(rows * sizeof *depth);
  uint32_t *children = calloc(rows, sizeof *children);
  int64_t *inside = calloc(rows, sizeof *inside);
  sum_table table = {.sums = to};
  *to = (msp_sums){0};
  bool done = order != NULL && parent != NULL && depth != NULL && children != NULL && inside != NULL && grow(&table) &&
              msp_nest(count, of, order, depth, parent);
  for (int64_t place = 0; done && place < count; ++place) {
    uint32_t row = order[place];
    if (parent[place] == UINT32_MAX) continue;
    ++children[parent[place]];
    if (counted[row]) continue;
    int64_t end = of->end_ns[row], outer = of->end_ns[order[parent[place]]];
    inside[order[parent[place]]] += (end < outer ? end : outer) - of->start_ns[row];
  }
  for (int64_t place = 0; done && place < count; ++place) {
    uint32_t row = order[place];
    msp_sum *sum = sum_of(&table, key[row]);
    done = sum != NULL;
    if (!done) break;
    if (counted[row]) {
      sum->self_ns -= inside[row];
    } else if (is_repeated(place, order, parent, children, key)) {
      sum->self_ns += of->end_ns[row] - of->start_ns[row] - inside[row];
    } else {
      add(sum, of->end_ns[row] - of->start_ns[row], inside[row]);
    }
  }
  if (done) mark_open(count, of, order, open);
  free(order);
  free(parent);
  free(depth);
  free(children);
  free(inside);
  free(table.places);
  return done;
}
