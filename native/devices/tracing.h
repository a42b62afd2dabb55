/* Tracing of a device by the interface of its vendor. These functions are the same for all vendors.
 *
 * One interface is attached at a time, and only after the job has used the device's driver. If the interface were
 * attached earlier, fork children would inherit it, and these children may use the device. A number MSP_DEVICE_SOURCE_*
 * (device_format.h) identifies an interface.
 */
#ifndef MSP_DEVICES_TRACING_H
#define MSP_DEVICES_TRACING_H

#include <stdbool.h>
#include <stdint.h>

/* cffi:begin */
/* outcomes of a call */
#define MSP_TRACE_DONE 0
#define MSP_TRACE_IDLE 1    /* the job does not use the driver in this process */
#define MSP_TRACE_OWNED 2   /* another tool uses the interface */
#define MSP_TRACE_FAILED 3  /* the interface cannot be used */
#define MSP_TRACE_HANGS 4   /* the interface did not answer; it is never called again */
#define MSP_TRACE_MISSING 5 /* the library cannot be loaded; the caller may try another one */

/* kinds of records */
#define MSP_TRACE_BASIC 1  /* kernels, copies, and the calls of the runtime that launch them */
#define MSP_TRACE_DRIVER 2 /* calls of the driver: compiled code launches kernels without the runtime */
#define MSP_TRACE_GRAPHS 4 /* launches of graphs, in place of the kernels in them */
#define MSP_TRACE_MEMORY 8 /* memory, copies and sets, where the interface reports them only on demand */

typedef struct {
  uint64_t records;
  uint64_t refused;
  uint64_t unknown;
  uint64_t unfinished;
  uint64_t unreadable;
  uint64_t lost;
  uint64_t dropped;
  uint64_t stopped;
  uint64_t uncertainty_ns; /* uncertainty of the times, ns; 0 if the interface reads CLOCK_MONOTONIC_RAW */
  uint32_t version;        /* the interface's own version number */
} msp_trace_counts;

/* Return whether the job already uses the driver of an interface in this process. Loads nothing, and takes half a
 * microsecond if the driver is not loaded. */
bool msp_trace_ready(uint32_t source);

/* Attach the interface in the library `library`, without recording yet. On failure, `why` receives the reason, with at
 * most `room` bytes. */
int msp_trace_attach(uint32_t source, const char *library, char *why, uint32_t room);

/* Record these kinds (MSP_TRACE_BASIC and others) from now on, or stop recording (0). On success, `why` names the kinds
 * that the interface refuses, and the reason. */
int msp_trace_record(uint32_t kinds, char *why, uint32_t room);

/* Write all complete records of the device to the store. */
int msp_trace_flush(void);

/* Write all records of the device to the store, restore the interface's settings, and detach the interface. */
int msp_trace_detach(void);

/* Copy the counts of records for the interface that was attached last. The counts cover all use of this interface in
 * this process so far. */
void msp_trace_count(msp_trace_counts *counts);
/* cffi:end */

#endif
