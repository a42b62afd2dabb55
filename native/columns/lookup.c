#include "lookup.h"

#include <stddef.h>
#include <stdlib.h>

/* Return the last interval that begins at or before a time; -1 if there is none. The search begins at the interval
 * `near`, because the times of successive calls are mostly in order. */
static int64_t begun(int64_t time, const int64_t *start, int64_t count, int64_t near) {
  if (near >= 0 && start[near] <= time) {
    for (int step = 0; step < 2; ++step, ++near) {
      if (near + 1 == count || time < start[near + 1]) return near;
    }
  }
  int64_t low = 0, high = count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (start[middle] <= time) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

uint32_t msp_locate(int64_t time, const int64_t *start, const int64_t *end, int64_t count, int64_t *near) {
  *near = begun(time, start, count, *near);
  return *near >= 0 && time < end[*near] ? (uint32_t)*near : MSP_NOWHERE;
}

/* A hash table of pairs, with open addressing. An entry is the row of a pair plus one; 0 means that the entry is
 * free. */
typedef struct {
  const uint32_t *first, *second;
  uint32_t *places;
  size_t mask;
} pair_table;

static size_t place_of(const pair_table *table, uint32_t first, uint32_t second) {
  size_t place = (size_t)((((uint64_t)first << 32 | second) * 0x9E3779B97F4A7C15ULL) >> 32) & table->mask;
  while (table->places[place] != 0) {
    uint32_t row = table->places[place] - 1;
    if (table->first[row] == first && table->second[row] == second) break;
    place = (place + 1) & table->mask;
  }
  return place;
}

bool msp_find(int64_t count, const uint32_t *first, const uint32_t *second, int64_t known, const uint32_t *known_first,
              const uint32_t *known_second, uint32_t *rows) {
  size_t room = 4;
  while (room < (size_t)known * 2) room *= 2;
  pair_table table = {known_first, known_second, calloc(room, sizeof *table.places), room - 1};
  if (table.places == NULL) return false;
  for (int64_t row = 0; row < known; ++row) {
    size_t place = place_of(&table, known_first[row], known_second[row]);
    if (table.places[place] == 0) table.places[place] = (uint32_t)row + 1;
  }
  for (int64_t i = 0; i < count; ++i) { /* most pairs equal the pair of the row before */
    bool same = i > 0 && first[i] == first[i - 1] && second[i] == second[i - 1];
    rows[i] = same ? rows[i - 1] : table.places[place_of(&table, first[i], second[i])] - 1;
  }
  free(table.places);
  return true;
}

/* Return the place of a key in a hash table. Most keys are consecutive numbers; the multiplication spreads them over
 * the table. */
static size_t place_of_key(const uint32_t *places, size_t mask, const uint32_t *known_key, uint32_t key) {
  size_t place = (size_t)((key * 0x9E3779B97F4A7C15ULL) >> 32) & mask;
  while (places[place] != 0 && known_key[places[place] - 1] != key) place = (place + 1) & mask;
  return place;
}

bool msp_latest(int64_t count, const uint32_t *key, const int64_t *time, int64_t known, const uint32_t *known_key,
                const int64_t *known_time, uint32_t *rows) {
  size_t room = 4;
  while (room < (size_t)known + (size_t)known / 2) room *= 2;
  uint32_t *places = calloc(room, sizeof *places); /* 1 + the last row of a key; 0: none */
  uint32_t *before =
      calloc((size_t)known + 1, sizeof *before); /* for each row, 1 + the last earlier row with its key; 0: none */
  bool done = places != NULL && before != NULL;
  for (int64_t row = 0; done && row < known; ++row) {
    uint32_t *last = &places[place_of_key(places, room - 1, known_key, known_key[row])];
    before[row] = *last;
    *last = (uint32_t)row + 1;
  }
  for (int64_t i = 0; done && i < count; ++i) {
    uint32_t at = places[place_of_key(places, room - 1, known_key, key[i])];
    while (at != 0 && known_time[at - 1] > time[i]) at = before[at - 1];
    rows[i] = at - 1; /* MSP_NOWHERE if there is no such row */
  }
  free(places);
  free(before);
  return done;
}
