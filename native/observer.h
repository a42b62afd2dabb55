/* Record PyTorch's operators through the callbacks of its class RecordFunction.
 *
 * PyTorch makes a RecordFunction for each operator, each node of autograd and each region of the user. At its begin and
 * end, PyTorch calls the callbacks that were added by at::addGlobalCallback, on the thread that runs the operator.
 * These callbacks work beside any profiler of the script. This code does not use Python. Types and names are those of
 * PyTorch's ATen/record_function.h. When callbacks are added or removed, a thread notices the change at the begin of
 * its next operator.
 */
#ifndef MSP_OBSERVER_H
#define MSP_OBSERVER_H

#include <stdbool.h>
#include <stdint.h>

/* Offsets of fields in a RecordFunction, in bytes; PyTorch reads these fields by inline functions. */
typedef struct {
  uint32_t thread;   /* thread_id_: PyTorch's number of the thread that began the operator, from 1 */
  uint32_t scope;    /* scope_: the kind of the operator */
  uint32_t sequence; /* sequence_nr_: number of autograd, negative if there is none */
  uint32_t forward;  /* fwd_thread_id_: for a node of autograd, the thread of its operator; otherwise 0 */
  uint32_t async;    /* is_async_: the end may be reported on another thread */
} msp_observer_layout;

/* Find PyTorch's functions in a loaded library. Returns NULL on success, or the reason of the failure. */
const char *msp_observer_connect(const char *library, const msp_observer_layout *layout);

/* Begin or stop to record the operators of all threads; the caller holds the GIL. Does nothing before a successful
 * msp_observer_connect. */
void msp_observer_switch(bool on);

/* Return whether other threads have begun operators since the last call on this thread. */
bool msp_observer_elsewhere(void);

/* Return the number of operators that are open on the calling thread. */
uint32_t msp_observer_open(void);

/* Record the begin of a region that PyTorch does not report, if operators are recorded now; `region` is the address of
 * the region's object. Returns whether the begin was recorded. If so, the caller must call msp_observer_region_end at
 * the end of the region. */
bool msp_observer_region(const char *name, const void *region);
void msp_observer_region_end(const void *region);

/* If the innermost operator of the calling thread is a region with this name, record its end now. Called because
 * PyTorch will report this end on another thread, or after other operators. */
void msp_observer_hand_over(const char *name);

#endif
