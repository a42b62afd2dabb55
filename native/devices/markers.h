/* Two lists: open ranges of markers, because an interface reports begin and end separately; and the names of markers
 * for which a stream later reports only a number.
 *
 * Used by one thread at a time. The number of entries is bounded; the oldest entry is dropped first.
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

/* Store the names of a marker that the host has reported and that a stream will report again. */
void msp_markers_name(msp_markers *markers, const msp_device_record *host);

/* Give a stream's marker the names of the host's marker with the same number, if these names are known. */
void msp_markers_find(const msp_markers *markers, msp_device_record *stream);

/* Store a range that begins. Its number is `correlation`; ranges of the host, which have a thread, and ranges of
 * devices are numbered separately. */
void msp_markers_begin(msp_markers *markers, const msp_device_record *begin);

/* Complete the record of a range's end by its begin and names. Returns false if the begin is unknown. */
bool msp_markers_end(msp_markers *markers, msp_device_record *end);

#endif
