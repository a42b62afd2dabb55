#include "markers.h"

#include <string.h>

void msp_markers_clear(msp_markers *markers) { markers->count = markers->named = 0; }

void msp_markers_name(msp_markers *markers, const msp_device_record *host) {
  markers->names[markers->named++ % MSP_MARKERS_NAMED] = (msp_marker_name){host->correlation, host->name, host->detail};
}

void msp_markers_find(const msp_markers *markers, msp_device_record *stream) {
  uint32_t kept = markers->named < MSP_MARKERS_NAMED ? markers->named : MSP_MARKERS_NAMED;
  for (uint32_t back = 1; back <= kept; ++back) {
    const msp_marker_name *known = &markers->names[(markers->named - back) % MSP_MARKERS_NAMED];
    if (known->number != stream->correlation) continue;
    stream->name = known->name;
    stream->detail = known->domain;
    return;
  }
}

static void remove_at(msp_markers *markers, uint32_t at) {
  --markers->count;
  memmove(&markers->open[at], &markers->open[at + 1], (markers->count - at) * sizeof markers->open[0]);
}

void msp_markers_begin(msp_markers *markers, const msp_device_record *begin) {
  if (markers->count == MSP_MARKERS_MOST) remove_at(markers, 0);
  markers->open[markers->count++] = *begin;
}

bool msp_markers_end(msp_markers *markers, msp_device_record *end) {
  for (uint32_t at = markers->count; at-- > 0;) { /* nested ranges end in the reverse order of their begins */
    const msp_device_record *begin = &markers->open[at];
    if (begin->correlation != end->correlation || (begin->thread != 0) != (end->thread != 0)) continue;
    uint64_t end_ns = end->end_ns;
    *end = *begin;
    end->end_ns = end_ns > begin->start_ns ? end_ns : begin->start_ns;
    remove_at(markers, at);
    return true;
  }
  return false;
}
