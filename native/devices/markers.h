/* Ranges of markers whose begin was told and whose end was not: an interface tells the two apart from each other.
 *
 * One thread at a time. What lies open is bounded; of too many the oldest is forgotten.
 */
#ifndef MSP_DEVICES_MARKERS_H
#define MSP_DEVICES_MARKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

enum { MSP_MARKERS_MOST = 512 };

typedef struct {
  msp_device_record open[MSP_MARKERS_MOST]; /* by begin */
  uint32_t count;
} msp_markers;

/* Keep a range that begins; its number is `correlation`, among those of the host (which have a thread) and of devices.
 */
void msp_markers_begin(msp_markers *markers, const msp_device_record *begin);

/* Give the end of a range its begin and names. Returns false where that is not known. */
bool msp_markers_end(msp_markers *markers, msp_device_record *end);

#endif
