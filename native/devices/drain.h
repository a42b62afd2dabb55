/* The drain thread, which reads the records of devices. Once a second, it makes the vendor's interface return buffers
 * with records, and writes these records to the store.
 *
 * So a killed job loses the records of at most one second. The drain thread calls no Python and blocks all signals.
 */
#ifndef MSP_DEVICES_DRAIN_H
#define MSP_DEVICES_DRAIN_H

#include <stdbool.h>

#include "backend.h"

/* Start the drain thread. Returns false if no thread can be started. */
bool msp_drain_start(const msp_backend *backend);

/* Make the interface return its buffers now, and read them. Returns false if this takes too long: then the interface
 * hangs, and must not be called any more. */
bool msp_drain_flush(bool everything);

/* End the drain thread. Returns false if it does not end in time: then the interface hangs, and must not be called any
 * more. */
bool msp_drain_stop(void);

/* Copy the counts of records. They are reset when the drain thread is started for another interface. */
void msp_drain_counts(msp_device_counts *counts);

void msp_drain_after_fork(void);

#endif
