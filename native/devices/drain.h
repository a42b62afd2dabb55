/* The drain thread, which reads the records of devices: once a second it makes the interface return buffers, and writes
 * their records.
 *
 * So a killed job loses the records of at most one second. The thread calls no Python and blocks all signals.
 */
#ifndef MSP_DEVICES_DRAIN_H
#define MSP_DEVICES_DRAIN_H

#include <stdbool.h>

#include "backend.h"

/* Start the thread. Returns false if no thread can be started. */
bool msp_drain_start(const msp_backend *backend);

/* Make the interface return its buffers now, and read them. Returns false if that takes too long: the interface hangs,
 * and must not be called any more. */
bool msp_drain_flush(bool everything);

/* End the thread. Returns false if it does not end in time: the interface hangs, as above. */
bool msp_drain_stop(void);

/* Copy the counts; they are reset when the thread is started for another interface. */
void msp_drain_counts(msp_device_counts *counts);

void msp_drain_after_fork(void);

#endif
