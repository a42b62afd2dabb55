/* Write the events of a timeline as packets of Perfetto's protobuf trace, at some 50 ns an event. Does not use Python's
 * API.
 *
 * The messages are those of protos/perfetto/trace in github.com/google/perfetto: TracePacket, TrackEvent, InternedData.
 * Each track is a separate sequence of packets, as in Perfetto's own writers. The first packet of a sequence has the
 * defaults for all others. A time is the difference to the packet before, in nanoseconds. Each text is written once,
 * where the sequence first uses it.
 */
#ifndef MSP_PERFETTO_H
#define MSP_PERFETTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protobuf.h"
#include "rows.h"

/* Largest number of arguments of an event. */
enum { MSP_PERFETTO_ARGUMENTS_MOST = 16 };

typedef enum { MSP_EVENT_SLICE, MSP_EVENT_INSTANT, MSP_EVENT_COUNTER } msp_event_kind;

/* A table of texts. Events refer to a text by its index. */
typedef struct {
  const msp_text *texts;
  size_t count;
} msp_text_table;

typedef enum { MSP_ARGUMENT_TEXT, MSP_ARGUMENT_INTEGER, MSP_ARGUMENT_TRUE } msp_argument_kind;

/* A column with one argument of all events: a text, an int64, or true. If the row of an event is null or false, the
 * event does not have the argument. */
typedef struct {
  msp_argument_kind kind;
  msp_text name;
  size_t table;         /* MSP_ARGUMENT_TEXT: number of the table with its texts */
  const void *values;   /* uint32, int64 or uint8 */
  const uint8_t *valid; /* one bit for each row, from bit `offset` on: whether it has a value; NULL: all have */
  int64_t offset;
} msp_argument;

typedef struct {
  uint64_t uuid;
  msp_text descriptor; /* TrackDescriptor, without uuid, of the further tracks for crossing slices */
} msp_track;

/* Events of one kind, sorted by track, start, and length, the longest first. */
typedef struct {
  msp_event_kind kind;
  int64_t count;
  const uint32_t *track;
  const int64_t *start_ns;
  const int64_t *end_ns;    /* MSP_EVENT_SLICE */
  const double *value;      /* MSP_EVENT_COUNTER */
  const uint32_t *name;     /* index in the first table */
  const uint32_t *category; /* index in the second table */
  const msp_argument *arguments;
  size_t argument_count;
  const msp_text_table *tables;
  size_t table_count;
  int64_t flow_count; /* number of begins and ends of flows, sorted by event */
  const uint32_t *flow_event;
  const int64_t *flow_id;
  const uint8_t *flow_ends; /* 1: the flow ends at the event; 0: it begins there */
} msp_events;

typedef struct {
  const msp_track *tracks;
  size_t count;
  int64_t base_ns;        /* a time at or before the first event */
  uint32_t sequence;      /* first free number of a sequence; the call updates it */
  uint64_t crossing_uuid; /* the uuid of a further track is this number plus the number of its sequence */
  uint32_t stride;        /* difference between the numbers of two successive sequences */
  bool further;           /* true: all slices go to further tracks, because slices of other calls may be open */
} msp_tracks;

typedef enum {
  MSP_PERFETTO_DONE,
  MSP_PERFETTO_NO_MEMORY,
  MSP_PERFETTO_REFUSED,
  MSP_PERFETTO_RANGE
} msp_perfetto_result;

/* Write events. When a slice overlaps an open slice of its track without nesting, the slice goes to a further track of
 * the same lane: the first one on which it nests in all open slices. */
msp_perfetto_result msp_perfetto_write(msp_tracks *tracks, const msp_events *events, msp_sink sink, void *context);

#endif
