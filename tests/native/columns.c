/* Fill and read columns of random sizes; the sanitizers check that no access is outside the columns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns/calls.h"
#include "columns/device_records.h"
#include "columns/lookup.h"
#include "columns/nesting.h"
#include "columns/perfetto.h"
#include "columns/rows.h"
#include "columns/slots.h"
#include "columns/sums.h"
#include "device_format.h"
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

static void sum_up(int64_t count, const msp_spans *of) {
  uint64_t *key = room((size_t)count, sizeof *key);
  uint8_t *counted = room((size_t)count, 1), *open = room((size_t)count, 1);
  uint64_t fresh = 0, found = 0;
  for (int64_t i = 0; i < count; ++i) {
    key[i] = random_below(2) ? random_below(9) : random_below(5000);
    counted[i] = random_below(9) == 0;
    fresh += !counted[i];
  }
  msp_sums sums;
  require(msp_sum_up(count, of, key, counted, open, &sums), "no memory");
  for (size_t i = 0; i < sums.count; ++i) found += sums.sums[i].count;
  require(found == fresh, "spans that are not summed up");
  free(sums.sums);
  free(key);
  free(counted);
  free(open);
}

static void call(int64_t count, const msp_spans *spans) {
  static const uint8_t categories[] = {MSP_CATEGORY_MODULE, MSP_CATEGORY_OP, MSP_CATEGORY_OP, 7};
  uint8_t *category = room((size_t)count, 1), *inner = room((size_t)count, 1);
  uint32_t *name = room((size_t)count, sizeof *name), *module = room((size_t)count, sizeof *module);
  for (int64_t i = 0; i < count; ++i) {
    category[i] = categories[random_below(4)];
    name[i] = random_below(50);
  }
  const msp_called of = {*spans, category, name};
  require(msp_calls(count, &of, module, inner), "no memory");
  for (int64_t i = 0; i < count; ++i) {
    if (category[i] != MSP_CATEGORY_OP) continue;
    require(module[i] < 50 || module[i] == MSP_NO_NAME, "a module that is not there");
    require(inner[i] <= 1, "neither true nor false");
  }
  free(category);
  free(inner);
  free(name);
  free(module);
}

static void look_up(int64_t count) {
  uint32_t *first = room((size_t)count, sizeof *first), *second = room((size_t)count, sizeof *second);
  uint32_t *row = room((size_t)count, sizeof *row);
  int64_t *start = room((size_t)count, sizeof *start), *end = room((size_t)count, sizeof *end);
  int64_t near = -1, known = count / 3;
  for (int64_t i = 0; i < count; ++i) {
    first[i] = random_below(9);
    second[i] = UINT32_MAX - random_below(9);
    start[i] = i * 10 + random_below(5);
    end[i] = start[i] + random_below(6);
  }
  require(msp_find(count, first, second, known, first, second, row), "no memory");
  for (int64_t i = 0; i < known; ++i) require(row[i] <= i, "a pair that is not where it is");
  for (int64_t i = 0; i < count; ++i) {
    uint32_t at = msp_locate((int64_t)random_below(6000) - 500, start, end, count, &near);
    require(at == MSP_NOWHERE || at < count, "an interval that is not there");
  }
  require(msp_latest(count, first, end, known, first, start, row), "no memory");
  for (int64_t i = 0; i < count; ++i) {
    if (row[i] == MSP_NOWHERE) continue;
    require(row[i] < known && first[row[i]] == first[i] && start[row[i]] <= end[i], "a call that is not the one");
  }
  free(first);
  free(second);
  free(row);
  free(start);
  free(end);
}

static msp_device_rows device_rows(size_t count) {
  return (msp_device_rows){.start_ns = room(count, 8),
                           .end_ns = room(count, 8),
                           .amount = room(count, 8),
                           .name = room(count, 4),
                           .detail = room(count, 4),
                           .correlation = room(count, 4),
                           .device = room(count, 4),
                           .stream = room(count, 4),
                           .context = room(count, 4),
                           .graph = room(count, 4),
                           .native_tid = room(count, 4),
                           .type = room(count, 1),
                           .source = room(count, 1)};
}

static void free_device_rows(const msp_device_rows *rows) {
  void *columns[] = {rows->start_ns,    rows->end_ns, rows->amount, rows->name,    rows->detail,
                     rows->correlation, rows->device, rows->stream, rows->context, rows->graph,
                     rows->native_tid,  rows->type,   rows->source};
  for (size_t i = 0; i < sizeof columns / sizeof *columns; ++i) free(columns[i]);
}

/* Count device records, then read them into columns that have exactly the counted size. */
static void devices(const char *bytes, size_t count, const msp_wanted *wanted) {
  msp_device_counts most = {0, 0, 0}, at = {0, 0, 0};
  msp_device_count(bytes, count, &most);
  const msp_device_calls calls = {room(most.calls, 8), room(most.calls, 8), room(most.calls, 4), room(most.calls, 4),
                                  room(most.calls, 4)};
  const msp_device_rows ran = device_rows(most.ran), others = device_rows(most.others);
  msp_device_read(bytes, count, wanted, &calls, &ran, &others, &at);
  require(at.calls == most.calls && at.ran == most.ran && at.others == most.others, "records that were not counted");
  free(calls.start_ns);
  free(calls.end_ns);
  free(calls.name);
  free(calls.correlation);
  free(calls.native_tid);
  free_device_rows(&ran);
  free_device_rows(&others);
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
  const msp_spans of = {lane, start, end};
  require(msp_nest(count, &of, order, depth, parent), "no memory");
  for (int64_t i = 0; i < count; ++i) {
    require(order[i] < count, "a row that is not there");
    require((parent[i] == UINT32_MAX) == (depth[i] == 0), "a parent at the wrong depth");
    if (depth[i] == 0) continue;
    /* spans may overlap without one lying inside the other, so a parent may end before its child does */
    require(parent[i] < i, "a parent that begins later");
    uint32_t row = order[i], outer = order[parent[i]];
    require(lane[row] == lane[outer] && (end[outer] > start[row] || start[outer] == start[row]),
            "a parent that has ended");
  }
  msp_inside(count, parent, start, end, NULL, inside);
  sum_up(count, &of);
  call(count, &of);
  free(lane);
  free(start);
  free(end);
  free(inside);
  free(order);
  free(parent);
  free(depth);
}

static void rows(int64_t count) {
  enum { LONGEST = 33 };
  char *first = room(3 + MSP_ROWS_SLACK, 1), *second = room(LONGEST + MSP_ROWS_SLACK, 1);
  const msp_text texts[] = {{first, 3}, {NULL, 0}, {second, LONGEST}};
  int64_t *numbers = room((size_t)count, sizeof *numbers);
  uint32_t *index = room((size_t)count, sizeof *index);
  uint8_t *valid = room((size_t)count / 8 + 2, 1);
  for (int64_t i = 0; i < count; ++i) {
    numbers[i] = random_below(2) ? INT64_MIN + random_below(3) : INT64_MAX - random_below(3);
    index[i] = random_below(5); /* 3 and 4 stand for no text */
    valid[i / 8] |= (uint8_t)(random_below(2) << (i & 7));
  }
  const msp_part parts[] = {
      {.kind = MSP_PART_TEXT, .text = texts[0]},
      {.kind = MSP_PART_CHOICE, .texts = texts, .count = 3, .longest = LONGEST, .values = index},
      {.kind = MSP_PART_INTEGER, .values = numbers},
      {.kind = MSP_PART_MICROSECONDS, .values = numbers, .valid = valid, .offset = 1},
  };
  size_t most = msp_rows_most(parts, 4) * (size_t)count;
  char *text = room(most + MSP_ROWS_SLACK, 1);
  require(msp_rows_write(text, parts, 4, 0, count) <= most, "more than there is room for");
  free(text);
  free(first);
  free(second);
  free(numbers);
  free(index);
  free(valid);
}

static msp_slot *random_slots(size_t count) {
  static const uint8_t categories[] = {0, MSP_DEVICE_API, MSP_DEVICE_KERNEL, MSP_CATEGORY_MODULE, MSP_CATEGORY_OP, 255};
  msp_slot *slots = room(count, sizeof *slots);
  for (size_t i = 0; i < count; ++i) {
    slots[i].kind = (uint8_t)random_below(12);
    slots[i].category = categories[random_below(6)];
    slots[i].arg = random_below(9);
    slots[i].name = random_below(9);
    slots[i].start_ns = random_below(1000);
    slots[i].end_ns = random_below(1200);
  }
  return slots;
}

static void slots(size_t count) {
  static const uint32_t names[] = {0, 3, 1, 2, 9};
  static const int64_t raw[] = {100, 300, 800}, offset[] = {5, 7, 6};
  static const double slope[] = {0.01, -0.002, 0};
  msp_slot *slots = random_slots(count);
  const char *bytes = (const char *)slots;
  msp_wanted wanted = {names, 5, 1, {raw, offset, slope, 3}, 1200, 0, 0, INT64_MIN, INT64_MAX, true, 0, INT64_MAX};
  devices(bytes, count, &wanted);
  int64_t *starts = room(count, sizeof *starts);
  msp_slot_columns coarse = {room(count, 8), room(count, 8), room(count, 8), room(count, 4),
                             room(count, 4), room(count, 1), room(count, 1), room(count, 1)};
  msp_span_columns spans = {room(count, 8), room(count, 8), room(count, 8), room(count, 4),
                            room(count, 4), room(count, 1), room(count, 1), room(count, 1)};
  for (int window = 0; window < 2; ++window) {
    wanted.window_start = window * 200;
    wanted.window_end = window * 700;
    uint32_t thread = 77;
    size_t start_count = 0;
    msp_fine fine = {0, 0, INT64_MAX, INT64_MIN, INT64_MIN};
    size_t left = msp_slots_coarse(bytes, count, &thread, &wanted, coarse, 0, &fine, 3, starts, &start_count);
    uint32_t last = thread;
    thread = 77;
    require(msp_spans_read(bytes, count, &thread, &wanted, spans, 0) == fine.count, "other spans than were counted");
    require(left + fine.count == count && thread == last, "slots that are neither");
    require(start_count == (fine.count + 2) / 3, "starts that are missing");
  }
  free(slots);
  free(starts);
  void *columns[] = {coarse.start_ns, coarse.end_ns,  coarse.arg,     coarse.id,       coarse.thread, coarse.kind,
                     coarse.category, coarse.flags,   spans.start_ns, spans.end_ns,    spans.arg,     spans.name,
                     spans.thread,    spans.category, spans.flags,    spans.unfinished};
  for (size_t i = 0; i < sizeof columns / sizeof *columns; ++i) free(columns[i]);
}

static uint64_t varint(const uint8_t **from, const uint8_t *end) {
  uint64_t value = 0;
  for (int shift = 0; *from < end; shift += 7) {
    uint8_t byte = *(*from)++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  require(0, "half a number");
  return 0;
}

/* The number of packets that `take_packets` has taken, and the number after which it refuses further ones. */
typedef struct {
  int64_t packets, most;
} counted;

static bool take_packets(void *context, const uint8_t *bytes, size_t length) {
  counted *to = context;
  const uint8_t *end = bytes + length;
  while (bytes < end) {
    require(varint(&bytes, end) == 10, "a tag that is not that of a packet");
    uint64_t size = varint(&bytes, end);
    require(size <= (uint64_t)(end - bytes), "half a packet");
    bytes += size;
    ++to->packets;
  }
  return to->packets < to->most;
}

static void perfetto(int64_t count) {
  static char long_text[3000];
  memset(long_text, 'x', sizeof long_text);
  const msp_text texts[] = {{"one", 3}, {"", 0}, {long_text, sizeof long_text}};
  const msp_text_table tables[] = {{texts, 3}, {texts, 2}, {texts, 3}};
  const msp_track places[] = {{1, {"", 0}}, {2, {long_text, 200}}};
  uint32_t *track = room((size_t)count, sizeof *track), *name = room((size_t)count, sizeof *name);
  uint32_t *category = room((size_t)count, sizeof *category), *event = room((size_t)count, sizeof *event);
  int64_t *start = room((size_t)count, sizeof *start), *end = room((size_t)count, sizeof *end);
  double *value = room((size_t)count, sizeof *value);
  uint8_t *truth = room((size_t)count, 1);
  for (int64_t i = 0; i < count; ++i) {
    track[i] = i < count / 2 ? 0 : 1;
    start[i] = i == 0 || track[i] != track[i - 1] ? random_below(9) : start[i - 1] + random_below(90);
    end[i] = start[i] + random_below(300);
    name[i] = random_below(3);
    category[i] = random_below(2);
    event[i] = (uint32_t)i;
    truth[i] = (uint8_t)random_below(2);
  }
  const msp_argument arguments[] = {
      {.kind = MSP_ARGUMENT_TEXT, .name = {"text", 4}, .table = 2, .values = name, .valid = truth},
      {.kind = MSP_ARGUMENT_INTEGER, .name = {long_text, 500}, .values = end},
      {.kind = MSP_ARGUMENT_TRUE, .name = {"true", 4}, .values = truth},
  };
  for (int kind = MSP_EVENT_SLICE; kind <= MSP_EVENT_COUNTER; ++kind) {
    const msp_events events = {
        .kind = (msp_event_kind)kind,
        .count = count,
        .track = track,
        .start_ns = start,
        .end_ns = kind == MSP_EVENT_SLICE ? end : NULL,
        .value = kind == MSP_EVENT_COUNTER ? value : NULL,
        .name = name,
        .category = category,
        .arguments = arguments,
        .argument_count = kind == MSP_EVENT_COUNTER ? 0 : 3,
        .tables = tables,
        .table_count = 3,
        .flow_count = count,
        .flow_event = event,
        .flow_id = end,
        .flow_ends = truth,
    };
    msp_tracks tracks = {.tracks = places, .count = 2, .sequence = 100, .crossing_uuid = 1000, .stride = 1};
    counted all = {.most = INT64_MAX}, few = {.most = 1};
    require(msp_perfetto_write(&tracks, &events, take_packets, &all) == MSP_PERFETTO_DONE, "events that are refused");
    int64_t per = kind == MSP_EVENT_SLICE ? 2 : 1;
    /* each sequence begins with one packet, or with two if it has slices that partly overlap others */
    require(all.packets >= per * count + tracks.sequence - 100, "events that are missing");
    require(all.packets <= per * count + 2 * (tracks.sequence - 100), "events that are too many");
    if (count == 0) continue;
    require(msp_perfetto_write(&tracks, &events, take_packets, &few) == MSP_PERFETTO_REFUSED, "no end to it");
    uint32_t last = track[count - 1];
    track[count - 1] = 2;
    require(msp_perfetto_write(&tracks, &events, take_packets, &all) == MSP_PERFETTO_RANGE,
            "a track that is not there");
    track[count - 1] = last;
  }
  free(track);
  free(name);
  free(category);
  free(event);
  free(start);
  free(end);
  free(value);
  free(truth);
}

/* usage: columns FOLDER ROUNDS SEED. FOLDER is not used. */
int main(int count, char **arguments) {
  if (count != 4) return 2;
  state = (unsigned)atoi(arguments[3]);
  for (int round = 0; round < atoi(arguments[2]); ++round) {
    nest(random_below(500));
    rows(1 + random_below(500));
    slots(random_below(500));
    look_up(random_below(500));
    perfetto(random_below(500));
  }
  return 0;
}
