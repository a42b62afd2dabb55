/* The thread that reads the records of devices: once a second it makes the interface return buffers, and writes their
 * records.
 *
 * So a killed job loses at most a second of its devices' records. It calls no Python and blocks all signals.
 */
#ifndef MSP_DEVICES_DRAIN_H
#define MSP_DEVICES_DRAIN_H

#include <stdbool.h>

#include "backend.h"

/* Returns false when there is no thread to be had. */
bool msp_drain_start(const msp_backend *backend);

/* Make the interface return its buffers, and read them, now. Returns false if that took too long: the interface
 * hangs, and must not be called any more. */
bool msp_drain_flush(bool everything);

/* End the thread. Returns false when it does not end in time: it hangs, as above. */
bool msp_drain_stop(void);

/* Since the thread that was started first for the interface of the last one. */
void msp_drain_counts(msp_device_counts *counts);

void msp_drain_after_fork(void);

#endif
