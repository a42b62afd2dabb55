/* The thread that reads what devices recorded: it has buffers completed once a second, and writes what is in them.
 *
 * A killed job so loses a second of its devices' records at most. It calls no Python and blocks all signals.
 */
#ifndef MSP_DEVICES_DRAIN_H
#define MSP_DEVICES_DRAIN_H

#include <stdbool.h>

#include "backend.h"

/* Returns false when there is no thread to be had. */
bool msp_drain_start(const msp_backend *backend);

/* Have buffers completed and read now. Returns false when that took longer than can be waited for: the interface
 * hangs, and must not be called any more. */
bool msp_drain_flush(bool everything);

/* End the thread. Returns false when it does not end in time: it hangs, as above. */
bool msp_drain_stop(void);

/* Since the thread that was started first for the interface of the last one. */
void msp_drain_counts(msp_device_counts *counts);

void msp_drain_after_fork(void);

#endif
