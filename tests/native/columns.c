/* Columns at random, for the sanitizers: what is read and written stays inside of what was asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns/nesting.h"
#include "columns/rows.h"
#include "columns/slots.h"
#include "file_format.h"

static unsigned state;

static unsigned random_below(unsigned limit) {
  state = state * 1103515245u + 12345u;
  return (state >> 8) % limit;
}

static void *room(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (memory == NULL) abort();
  return memory;
}

static void require(int truth, const char *what) {
  if (truth) return;
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void nest(int64_t count) {
  uint64_t *lane = room((size_t)count, sizeof *lane);
  int64_t *start = room((size_t)count, sizeof *start), *end = room((size_t)count, sizeof *end);
  int64_t *inside = room((size_t)count, sizeof *inside);
  uint32_t *order = room((size_t)count, sizeof *order), *parent = room((size_t)count, sizeof *parent);
  uint16_t *depth = room((size_t)count, sizeof *depth);
  for (int64_t i = 0; i < count; ++i) {
    lane[i] = random_below(3);
    start[i] = random_below(1000);
    end[i] = start[i] + random_below(200);
  }
  require(msp_nest(count, lane, start, end, order, depth, parent), "no memory");
  for (int64_t i = 0; i < count; ++i) {
    require(order[i] < count, "a row that is not there");
    require((parent[i] == UINT32_MAX) == (depth[i] == 0), "a parent at the wrong depth");
    require(depth[i] == 0 || (parent[i] < i && depth[parent[i]] == depth[i] - 1), "a parent of the wrong depth");
  }
  msp_inside(count, parent, start, end, NULL, inside);
  free(lane);
  free(start);
  free(end);
  free(inside);
  free(order);
  free(parent);
  free(depth);
}

static void rows(int64_t count) {
  static const msp_text texts[] = {{"one", 3}, {NULL, 0}, {"a longer text", 13}};
  int64_t *numbers = room((size_t)count, sizeof *numbers);
  uint32_t *index = room((size_t)count, sizeof *index);
  uint8_t *valid = room((size_t)count / 8 + 2, 1);
  for (int64_t i = 0; i < count; ++i) {
    numbers[i] = random_below(2) ? INT64_MIN + random_below(3) : INT64_MAX - random_below(3);
    index[i] = random_below(5); /* two of them stand for none */
    valid[i / 8] |= (uint8_t)(random_below(2) << (i & 7));
  }
  const msp_part parts[] = {
      {.kind = MSP_PART_TEXT, .text = {"<", 1}},
      {.kind = MSP_PART_CHOICE, .texts = texts, .count = 3, .longest = 13, .values = index},
      {.kind = MSP_PART_INTEGER, .values = numbers},
      {.kind = MSP_PART_MICROSECONDS, .values = numbers, .valid = valid, .offset = 1},
  };
  size_t most = msp_rows_most(parts, 4) * (size_t)count;
  char *text = room(most, 1);
  require(msp_rows_write(text, parts, 4, 0, count) <= most, "more than there is room for");
  free(text);
  free(numbers);
  free(index);
  free(valid);
}

static void slots(size_t count) {
  msp_slot *slots = room(count, sizeof *slots);
  for (size_t i = 0; i < count; ++i) {
    slots[i].kind = (uint8_t)(1 + random_below(8));
    slots[i].arg = random_below(9);
  }
  msp_slot_columns to = {room(count, 8), room(count, 8), room(count, 8), room(count, 4),
                         room(count, 4), room(count, 1), room(count, 1), room(count, 1)};
  uint32_t last = msp_slots_read((const char *)slots, count, 77, to);
  require(count == 0 || last == to.thread[count - 1], "another thread at the end");
  free(slots);
  free(to.start_ns);
  free(to.end_ns);
  free(to.arg);
  free(to.id);
  free(to.thread);
  free(to.kind);
  free(to.category);
  free(to.flags);
}

/* usage: columns FOLDER ROUNDS SEED; the folder is not used */
int main(int count, char **arguments) {
  if (count != 4) return 2;
  state = (unsigned)atoi(arguments[3]);
  for (int round = 0; round < atoi(arguments[2]); ++round) {
    nest(random_below(500));
    rows(1 + random_below(500));
    slots(random_below(500));
  }
  return 0;
}
