/* Two lists of markers, with which a script marks moments and ranges. One list has the open ranges, because an
 * interface reports the begin and the end of a range separately. The other has names of markers, because a stream later
 * reports only the number of a marker.
 *
 * One thread at a time uses these lists. The number of entries is bounded; the oldest entry is dropped first.
 */
#ifndef MSP_DEVICES_MARKERS_H
#define MSP_DEVICES_MARKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

enum { MSP_MARKERS_MOST = 512, MSP_MARKERS_NAMED = 1024 };

typedef struct {
  uint32_t number;
  const char *name, *domain;
} msp_marker_name;

typedef struct {
  msp_device_record open[MSP_MARKERS_MOST]; /* sorted by begin */
  uint32_t count;
  msp_marker_name names[MSP_MARKERS_NAMED]; /* ring of the last names */
  uint32_t named;                           /* number of names so far */
} msp_markers;

void msp_markers_clear(msp_markers *markers);

/* Store the names of a marker. The host has reported the marker, and a stream will report it again. */
void msp_markers_name(msp_markers *markers, const msp_device_record *host);

/* Give a stream's marker the names of the host's marker with the same number, if these names are known. */
void msp_markers_find(const msp_markers *markers, msp_device_record *stream);

/* Store the begin of a range. The range's number is `correlation`. Ranges of the host have a thread; ranges of devices
 * have none, and are numbered separately. */
void msp_markers_begin(msp_markers *markers, const msp_device_record *begin);

/* Complete the record of a range's end: add the begin and the names of the range. Returns false if the begin is
 * unknown. */
bool msp_markers_end(msp_markers *markers, msp_device_record *end);

#endif
