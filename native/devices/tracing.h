/* Tracing of a device by its vendor's interface; all interfaces are used through these functions.
 *
 * One is attached at a time, once the job has its driver in use: an interface that is attached earlier would be
 * inherited by fork children that may use the device. Its MSP_DEVICE_SOURCE_* identifies it (device_format.h).
 */
#ifndef MSP_DEVICES_TRACING_H
#define MSP_DEVICES_TRACING_H

#include <stdbool.h>
#include <stdint.h>

/* cffi:begin */
/* what became of a call */
#define MSP_TRACE_DONE 0
#define MSP_TRACE_IDLE 1    /* the job has no driver in use in this process */
#define MSP_TRACE_OWNED 2   /* another tool has the interface */
#define MSP_TRACE_FAILED 3  /* it cannot be used */
#define MSP_TRACE_HANGS 4   /* the interface did not answer; it is never called again */
#define MSP_TRACE_MISSING 5 /* the library cannot be loaded: another one may be */

/* kinds of records besides kernels, copies, and calls of the runtime that launch them */
#define MSP_TRACE_BASIC 1  /* these themselves */
#define MSP_TRACE_DRIVER 2 /* calls of the driver: compilers launch without the runtime */
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
  uint64_t uncertainty_ns; /* uncertainty of the times, ns; 0 where the interface reads our clock */
  uint32_t version;        /* the interface's own version number */
} msp_trace_counts;

/* Tell whether the job has the driver of that interface in use in this process. Loads nothing: half a microsecond where
 * it is not loaded. */
bool msp_trace_ready(uint32_t source);

/* Take the interface that `library` has, with nothing recorded yet; `why` receives a reason of at most `room` bytes. */
int msp_trace_attach(uint32_t source, const char *library, char *why, uint32_t room);

/* Record MSP_TRACE_BASIC and others from here on, or nothing more (0); on success, `why` names the kinds that are left
 * out, and why. */
int msp_trace_record(uint32_t kinds, char *why, uint32_t room);

/* Have everything that has ended written to the store. */
int msp_trace_flush(void);

/* Have everything written, and give the interface back as it was found. */
int msp_trace_detach(void);

/* The counts of the interface that was attached last, in this process so far. */
void msp_trace_count(msp_trace_counts *counts);
/* cffi:end */

#endif
