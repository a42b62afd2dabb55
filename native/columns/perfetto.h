/* Events of a timeline as packets of Perfetto's protobuf trace, at some 50 ns an event. Knows nothing of Python.
 *
 * The messages are those of protos/perfetto/trace in github.com/google/perfetto: TracePacket, TrackEvent, InternedData.
 * A track is a sequence of packets of its own, as Perfetto's own writers keep it: its first packet holds the defaults
 * of all others, times are deltas in nanoseconds, and a text is written where it is first used.
 */
#ifndef MSP_PERFETTO_H
#define MSP_PERFETTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protobuf.h"
#include "rows.h"

/* An event has no more arguments than these. */
enum { MSP_PERFETTO_ARGUMENTS_MOST = 16 };

typedef enum { MSP_EVENT_SLICE, MSP_EVENT_INSTANT, MSP_EVENT_COUNTER } msp_event_kind;

/* Texts that events name by their index. */
typedef struct {
  const msp_text *texts;
  size_t count;
} msp_text_table;

typedef enum { MSP_ARGUMENT_TEXT, MSP_ARGUMENT_INTEGER, MSP_ARGUMENT_TRUE } msp_argument_kind;

/* An argument of events: a text, an int64, or true; an event has none where its row is null, or false. */
typedef struct {
  msp_argument_kind kind;
  msp_text name;
  size_t table;         /* MSP_ARGUMENT_TEXT: of its texts */
  const void *values;   /* uint32, int64 or uint8 */
  const uint8_t *valid; /* a bit a row, from `offset`; NULL: all are */
  int64_t offset;
} msp_argument;

typedef struct {
  uint64_t uuid;
  msp_text descriptor; /* of further tracks for slices that cross: a TrackDescriptor without its uuid */
} msp_track;

/* Events of one kind by track and start, the longest first. */
typedef struct {
  msp_event_kind kind;
  int64_t count;
  const uint32_t *track;
  const int64_t *start_ns;
  const int64_t *end_ns;    /* MSP_EVENT_SLICE */
  const double *value;      /* MSP_EVENT_COUNTER */
  const uint32_t *name;     /* of the first table */
  const uint32_t *category; /* of the second table */
  const msp_argument *arguments;
  size_t argument_count;
  const msp_text_table *tables;
  size_t table_count;
  int64_t flow_count; /* ends of flows, by event */
  const uint32_t *flow_event;
  const int64_t *flow_id;
  const uint8_t *flow_ends; /* the flow ends here; it leaves otherwise */
} msp_events;

typedef struct {
  const msp_track *tracks;
  size_t count;
  int64_t base_ns;        /* no event is earlier */
  uint32_t sequence;      /* the first number for a sequence that is free; afterwards the next one */
  uint64_t crossing_uuid; /* a further track for slices that cross has this number plus that of its sequence */
  uint32_t stride;        /* from the number of a sequence to that of the next one */
  bool further;           /* all slices go to further tracks, because unknown slices may be open */
} msp_tracks;

typedef enum {
  MSP_PERFETTO_DONE,
  MSP_PERFETTO_NO_MEMORY,
  MSP_PERFETTO_REFUSED,
  MSP_PERFETTO_RANGE
} msp_perfetto_result;

/* Write events. A slice that crosses another one goes to the first further track of the same lane where it does not. */
msp_perfetto_result msp_perfetto_write(msp_tracks *tracks, const msp_events *events, msp_sink sink, void *context);

#endif
