#include "perfetto.h"

#include <stdlib.h>
#include <string.h>

enum {
  TRACE_PACKET = MSP_BYTES(1),
  PACKET_CLOCK_SNAPSHOT = MSP_BYTES(6),
  PACKET_TIMESTAMP = MSP_VARINT(8),
  PACKET_SEQUENCE_ID = MSP_VARINT(10),
  PACKET_TRACK_EVENT = MSP_BYTES(11),
  PACKET_INTERNED_DATA = MSP_BYTES(12),
  PACKET_SEQUENCE_FLAGS = MSP_VARINT(13),
  PACKET_DEFAULTS = MSP_BYTES(59),
  PACKET_TRACK_DESCRIPTOR = MSP_BYTES(60),
  DEFAULTS_TRACK_EVENT = MSP_BYTES(11),
  DEFAULTS_CLOCK_ID = MSP_VARINT(58),
  SNAPSHOT_CLOCK = MSP_BYTES(1),
  CLOCK_ID = MSP_VARINT(1),
  CLOCK_TIMESTAMP = MSP_VARINT(2),
  CLOCK_IS_INCREMENTAL = MSP_VARINT(3),
  DESCRIPTOR_UUID = MSP_VARINT(1),
  EVENT_CATEGORY_IID = MSP_VARINT(3),
  EVENT_ANNOTATION = MSP_BYTES(4),
  EVENT_TYPE = MSP_VARINT(9),
  EVENT_NAME_IID = MSP_VARINT(10),
  EVENT_TRACK_UUID = MSP_VARINT(11),
  EVENT_DOUBLE_VALUE = MSP_FIXED64(44),
  EVENT_FLOW_ID = MSP_FIXED64(47),
  EVENT_TERMINATING_FLOW_ID = MSP_FIXED64(48),
  ANNOTATION_NAME_IID = MSP_VARINT(1),
  ANNOTATION_BOOL = MSP_VARINT(2),
  ANNOTATION_INT = MSP_VARINT(4),
  ANNOTATION_STRING_IID = MSP_VARINT(17),
  INTERNED_CATEGORY = MSP_BYTES(1),
  INTERNED_NAME = MSP_BYTES(2),
  INTERNED_ANNOTATION_NAME = MSP_BYTES(3),
  INTERNED_STRING = MSP_BYTES(29),
  INTERNED_IID = MSP_VARINT(1),
  INTERNED_TEXT = MSP_BYTES(2),
};

enum { STATE_CLEARED = 1, NEEDS_STATE = 2 };
enum { CLOCK_REALTIME_ID = 1, CLOCK_BOOTTIME_ID = 6, CLOCK_SEQUENCE_ID = 64 };
enum { TYPE_SLICE_BEGIN = 1, TYPE_SLICE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };

/* Largest number of bytes that each part of a packet takes, without texts. */
enum { FIXED_MOST = 128, ARGUMENT_MOST = 96, FLOW_MOST = 12 };

/* One track in the file, which has a sequence of packets of its own. A lane of the timeline has a track, and further
 * tracks for slices that overlap without nesting. */
typedef struct {
  uint32_t sequence;
  int64_t last_ns;
  int64_t *ends; /* ends of the open slices */
  size_t depth, room;
  uint8_t *known; /* a bit for each text that this sequence has written */
} sequence;

typedef struct {
  const msp_events *events;
  msp_tracks *tracks;
  msp_output out;
  sequence *sequences; /* of the current track */
  size_t count, room;
  size_t names;    /* first bit for names of arguments, after the bits for names of events and categories */
  size_t *strings; /* first bit of the texts of each table */
  size_t bits;
  int64_t flow;
  bool out_of_range;
} writer;

static inline bool is_known(const sequence *of, size_t bit) { return of->known[bit >> 3] >> (bit & 7) & 1; }

static uint8_t *clock_pair(uint8_t *to, uint64_t id, uint64_t time) {
  uint8_t *clock = msp_message_begin(to, SNAPSHOT_CLOCK);
  to = msp_number(msp_number(clock, CLOCK_ID, id), CLOCK_TIMESTAMP, time);
  if (id == CLOCK_SEQUENCE_ID) to = msp_number(to, CLOCK_IS_INCREMENTAL, 1);
  return msp_message_end(clock, to);
}

/* Write the packet that begins a sequence: the defaults for its events, and the state of its clock. Perfetto shows
 * times of the clock BOOTTIME. Here, BOOTTIME is set equal to REALTIME, so that all times are nanoseconds since the
 * epoch. */
static bool begin_sequence(writer *of, uint32_t id, uint64_t uuid, const msp_text *descriptor) {
  size_t extra = descriptor == NULL ? 0 : descriptor->length;
  uint8_t *to = msp_output_reserve(&of->out, 2 * FIXED_MOST + extra);
  if (to == NULL) return false;
  uint8_t *packet = msp_message_begin(to, TRACE_PACKET);
  to = msp_number(msp_number(packet, PACKET_SEQUENCE_ID, id), PACKET_SEQUENCE_FLAGS, STATE_CLEARED);
  uint8_t *defaults = msp_message_begin(to, PACKET_DEFAULTS);
  uint8_t *event = msp_message_begin(defaults, DEFAULTS_TRACK_EVENT);
  to = msp_message_end(event, msp_number(event, EVENT_TRACK_UUID, uuid));
  to = msp_message_end(defaults, msp_number(to, DEFAULTS_CLOCK_ID, CLOCK_SEQUENCE_ID));
  uint8_t *snapshot = msp_message_begin(to, PACKET_CLOCK_SNAPSHOT);
  uint64_t base = (uint64_t)of->tracks->base_ns;
  to = clock_pair(snapshot, CLOCK_REALTIME_ID, base);
  to = clock_pair(to, CLOCK_BOOTTIME_ID, base);
  to = clock_pair(to, CLOCK_SEQUENCE_ID, base);
  to = msp_message_end(packet, msp_message_end(snapshot, to));
  if (descriptor != NULL) {
    packet = msp_message_begin(to, TRACE_PACKET);
    to = msp_number(packet, PACKET_SEQUENCE_ID, id);
    uint8_t *track = msp_message_begin(to, PACKET_TRACK_DESCRIPTOR);
    to = msp_number(track, DESCRIPTOR_UUID, uuid);
    memcpy(to, descriptor->bytes, descriptor->length);
    to = msp_message_end(packet, msp_message_end(track, to + descriptor->length));
  }
  msp_output_take(&of->out, to);
  return true;
}

static sequence *new_sequence(writer *of, const msp_track *track) {
  if (of->count == of->room) {
    size_t room = of->room * 2 + 4;
    sequence *larger = realloc(of->sequences, room * sizeof *larger);
    if (larger == NULL) return NULL;
    of->sequences = larger;
    of->room = room;
  }
  uint8_t *known = calloc(of->bits / 8 + 1, 1);
  if (known == NULL) return NULL;
  bool crossing = of->count > 0 || of->tracks->further;
  uint32_t id = of->tracks->sequence;
  of->tracks->sequence += of->tracks->stride;
  of->sequences[of->count] = (sequence){.sequence = id, .last_ns = of->tracks->base_ns, .known = known};
  sequence *begins = &of->sequences[of->count++];
  uint64_t uuid = crossing ? of->tracks->crossing_uuid + id : track->uuid;
  return begin_sequence(of, id, uuid, crossing ? &track->descriptor : NULL) ? begins : NULL;
}

/* Write the begin of a packet with an event. The time of the event must not be earlier than that of the previous
 * packet. */
static inline uint8_t *event_packet(uint8_t *packet, sequence *of, int64_t time_ns) {
  uint8_t *to = msp_number(packet, PACKET_TIMESTAMP, (uint64_t)(time_ns - of->last_ns));
  of->last_ns = time_ns;
  return msp_number(msp_number(to, PACKET_SEQUENCE_ID, of->sequence), PACKET_SEQUENCE_FLAGS, NEEDS_STATE);
}

static bool end_slice(writer *of, sequence *on) {
  uint8_t *to = msp_output_reserve(&of->out, FIXED_MOST);
  if (to == NULL) return false;
  uint8_t *packet = msp_message_begin(to, TRACE_PACKET);
  to = event_packet(packet, on, on->ends[--on->depth]);
  uint8_t *event = msp_message_begin(to, PACKET_TRACK_EVENT);
  msp_output_take(&of->out,
                  msp_message_end(packet, msp_message_end(event, msp_number(event, EVENT_TYPE, TYPE_SLICE_END))));
  return true;
}

static bool end_track(writer *of) {
  bool written = true;
  for (size_t i = 0; i < of->count; ++i) {
    while (written && of->sequences[i].depth > 0) written = end_slice(of, &of->sequences[i]);
    free(of->sequences[i].ends);
    free(of->sequences[i].known);
  }
  of->count = 0;
  return written;
}

/* Return the first sequence of a track in which a new slice lies inside all open slices. If there is none, make a
 * sequence. */
static sequence *fitting(writer *of, const msp_track *track, int64_t start_ns, int64_t end_ns) {
  for (size_t i = 0; i < of->count; ++i) {
    sequence *here = &of->sequences[i];
    while (here->depth > 0 && here->ends[here->depth - 1] <= start_ns) {
      if (!end_slice(of, here)) return NULL;
    }
    if (here->depth == 0 || here->ends[here->depth - 1] >= end_ns) return here;
  }
  return new_sequence(of, track);
}

static bool open_slice(sequence *on, int64_t end_ns) {
  if (on->depth == on->room) {
    size_t room = on->room * 2 + 16;
    int64_t *larger = realloc(on->ends, room * sizeof *larger);
    if (larger == NULL) return false;
    on->ends = larger;
    on->room = room;
  }
  on->ends[on->depth++] = end_ns;
  return true;
}

/* Return whether the event of this row has the argument. */
static inline bool has(const msp_argument *argument, int64_t row) {
  if (argument->valid != NULL) {
    int64_t bit = argument->offset + row;
    if (!(argument->valid[bit >> 3] >> (bit & 7) & 1)) return false;
  }
  return argument->kind != MSP_ARGUMENT_TRUE || ((const uint8_t *)argument->values)[row];
}

static inline uint32_t text_of(const msp_argument *argument, int64_t row) {
  return ((const uint32_t *)argument->values)[row];
}

/* A text that a sequence of packets uses for the first time, so that the text must be written to the file. */
typedef struct {
  size_t bit;
  uint64_t tag, iid;
  const msp_text *text;
} first_use;

/* Collect those texts of an event that its sequence has not written yet. Returns the number of these texts, and adds
 * the bytes that they take to `length`. */
static size_t first_uses(const writer *of, const sequence *on, int64_t row, first_use *uses, size_t *length) {
  const msp_events *events = of->events;
  size_t count = 0;
  uint32_t name = events->name[row], category = events->category[row];
  if (!is_known(on, name)) {
    uses[count++] = (first_use){name, INTERNED_NAME, name + 1, &events->tables[0].texts[name]};
  }
  size_t bit = events->tables[0].count + category;
  if (!is_known(on, bit)) {
    uses[count++] = (first_use){bit, INTERNED_CATEGORY, category + 1, &events->tables[1].texts[category]};
  }
  for (size_t i = 0; i < events->argument_count; ++i) {
    const msp_argument *argument = &events->arguments[i];
    if (!has(argument, row)) continue;
    if (!is_known(on, of->names + i)) {
      uses[count++] = (first_use){of->names + i, INTERNED_ANNOTATION_NAME, i + 1, &argument->name};
    }
    if (argument->kind != MSP_ARGUMENT_TEXT) continue;
    bit = of->strings[argument->table] + text_of(argument, row);
    if (is_known(on, bit)) continue;
    uint64_t iid = bit - of->strings[2] + 1;
    uses[count++] =
        (first_use){bit, INTERNED_STRING, iid, &events->tables[argument->table].texts[text_of(argument, row)]};
  }
  for (size_t i = 0; i < count; ++i) *length += uses[i].text->length + 32;
  return count;
}

static uint8_t *interned(uint8_t *to, sequence *on, const first_use *uses, size_t count) {
  uint8_t *data = msp_message_begin(to, PACKET_INTERNED_DATA);
  to = data;
  for (size_t i = 0; i < count; ++i) {
    /* two arguments of an event may have the same text */
    if (is_known(on, uses[i].bit)) continue;
    on->known[uses[i].bit >> 3] |= (uint8_t)(1 << (uses[i].bit & 7));
    uint8_t *entry = msp_message_begin(to, uses[i].tag);
    to = msp_number(entry, INTERNED_IID, uses[i].iid);
    uint8_t *text = msp_message_begin(to, INTERNED_TEXT);
    memcpy(text, uses[i].text->bytes, uses[i].text->length);
    to = msp_message_end(entry, msp_message_end(text, text + uses[i].text->length));
  }
  return msp_message_end(data, to);
}

static uint8_t *annotated(uint8_t *to, const writer *of, size_t index, int64_t row) {
  const msp_argument *argument = &of->events->arguments[index];
  if (!has(argument, row)) return to;
  uint8_t *annotation = msp_message_begin(to, EVENT_ANNOTATION);
  to = msp_number(annotation, ANNOTATION_NAME_IID, index + 1);
  switch (argument->kind) {
    case MSP_ARGUMENT_TEXT:
      to = msp_number(to, ANNOTATION_STRING_IID,
                      of->strings[argument->table] - of->strings[2] + text_of(argument, row) + 1);
      break;
    case MSP_ARGUMENT_INTEGER:
      to = msp_number(to, ANNOTATION_INT, (uint64_t)((const int64_t *)argument->values)[row]);
      break;
    case MSP_ARGUMENT_TRUE:
      to = msp_number(to, ANNOTATION_BOOL, 1);
      break;
  }
  return msp_message_end(annotation, to);
}

/* Write the packet of an event; for a slice, the packet of its begin. */
static bool write_event(writer *of, sequence *on, int64_t row, int64_t flows) {
  static const uint64_t types[] = {TYPE_SLICE_BEGIN, TYPE_INSTANT, TYPE_COUNTER};
  const msp_events *events = of->events;
  bool counter = events->kind == MSP_EVENT_COUNTER;
  first_use uses[2 + 2 * MSP_PERFETTO_ARGUMENTS_MOST];
  size_t length = 0, count = counter ? 0 : first_uses(of, on, row, uses, &length);
  uint8_t *to = msp_output_reserve(
      &of->out, FIXED_MOST + length + events->argument_count * ARGUMENT_MOST + (size_t)flows * FLOW_MOST);
  if (to == NULL) return false;
  uint8_t *packet = msp_message_begin(to, TRACE_PACKET);
  to = event_packet(packet, on, events->start_ns[row]);
  if (count > 0) to = interned(to, on, uses, count);
  uint8_t *event = msp_message_begin(to, PACKET_TRACK_EVENT);
  to = msp_number(event, EVENT_TYPE, types[events->kind]);
  if (counter) {
    to = msp_eight(to, EVENT_DOUBLE_VALUE, &events->value[row]);
  } else {
    to = msp_number(msp_number(to, EVENT_NAME_IID, events->name[row] + 1), EVENT_CATEGORY_IID,
                    events->category[row] + 1);
    for (size_t i = 0; i < events->argument_count; ++i) to = annotated(to, of, i, row);
  }
  for (int64_t i = of->flow - flows; i < of->flow; ++i) {
    to = msp_eight(to, events->flow_ends[i] ? EVENT_TERMINATING_FLOW_ID : EVENT_FLOW_ID, &events->flow_id[i]);
  }
  msp_output_take(&of->out, msp_message_end(packet, msp_message_end(event, to)));
  return true;
}

static bool in_range(const msp_tracks *tracks, const msp_events *events, int64_t row) {
  if (events->track[row] >= tracks->count || events->start_ns[row] < tracks->base_ns) return false;
  if (row > 0 && events->track[row] == events->track[row - 1] && events->start_ns[row] < events->start_ns[row - 1]) {
    return false;
  }
  if (events->kind == MSP_EVENT_COUNTER) return true;
  if (events->kind == MSP_EVENT_SLICE && events->end_ns[row] < events->start_ns[row]) return false;
  if (events->name[row] >= events->tables[0].count || events->category[row] >= events->tables[1].count) return false;
  for (size_t i = 0; i < events->argument_count; ++i) {
    const msp_argument *argument = &events->arguments[i];
    if (argument->kind != MSP_ARGUMENT_TEXT || !has(argument, row)) continue;
    if (text_of(argument, row) >= events->tables[argument->table].count) return false;
  }
  return true;
}

static bool write_row(writer *of, int64_t row) {
  const msp_events *events = of->events;
  uint32_t track = events->track[row];
  if (!in_range(of->tracks, events, row)) {
    of->out_of_range = true;
    return false;
  }
  if (row > 0 && track != events->track[row - 1] && !end_track(of)) return false;
  int64_t flows = of->flow;
  while (of->flow < events->flow_count && events->flow_event[of->flow] <= row) ++of->flow;
  bool slice = events->kind == MSP_EVENT_SLICE;
  int64_t start_ns = events->start_ns[row], end_ns = slice ? events->end_ns[row] : start_ns;
  sequence *on = fitting(of, &of->tracks->tracks[track], start_ns, end_ns);
  return on != NULL && write_event(of, on, row, of->flow - flows) && (!slice || open_slice(on, end_ns));
}

msp_perfetto_result msp_perfetto_write(msp_tracks *tracks, const msp_events *events, msp_sink sink, void *context) {
  writer of = {.events = events, .tracks = tracks, .out = {.sink = sink, .context = context}};
  of.strings = calloc(events->table_count + 1, sizeof *of.strings);
  bool going = of.strings != NULL;
  if (going) {
    of.names = events->tables[0].count + events->tables[1].count;
    of.bits = of.names + events->argument_count;
    for (size_t i = 0; i < events->table_count; ++i) {
      of.strings[i] = of.bits;
      of.bits += events->tables[i].count;
    }
  }
  for (int64_t row = 0; row < events->count && going; ++row) going = write_row(&of, row);
  going = going && end_track(&of) && msp_output_flush(&of.out);
  for (size_t i = 0; i < of.count; ++i) {
    free(of.sequences[i].ends);
    free(of.sequences[i].known);
  }
  free(of.sequences);
  free(of.strings);
  free(of.out.bytes);
  if (going) return MSP_PERFETTO_DONE;
  if (of.out_of_range) return MSP_PERFETTO_RANGE;
  return of.out.refused ? MSP_PERFETTO_REFUSED : MSP_PERFETTO_NO_MEMORY;
}
