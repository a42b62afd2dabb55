/* The traced calls of a thread: a list of its open (running) calls, and a record in the store for each ended call.
 *
 * When a call ends, the thread writes one record of 32 bytes (a slot) with the times of begin and end. When a call has
 * run for a millisecond, the thread writes another record before the call ends. So the call is in the store even if the
 * process is killed. The thread that begins or ends a call holds the GIL. This file does not use Python's API.
 */
#ifndef MSP_CALLS_H
#define MSP_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "writer.h"

#define MSP_WRITE_OPEN_NS 1000000u /* time between two writes of a thread's open calls */

/* What the records of a function's calls say about the function. */
typedef struct {
  const void *key; /* identifies the function */
  uint64_t place;  /* file and line, in the form of MSP_KIND_CALL, without a thread */
  uint32_t name;
} msp_callee;

typedef struct {
  const msp_callee *callee;
  uint64_t start_ns;
  uint8_t flags;
} msp_open_call;

typedef struct msp_calls {
  msp_open_call *open;
  uint32_t depth, room;
  uint32_t beyond;    /* number of deeper calls, which are not recorded */
  uint32_t written;   /* number of open calls, from the outermost on, that are written already */
  uint32_t span;      /* number of the period of tracing in which the calls began; 0: none */
  const void *strand; /* the stack that runs now, if the thread has several (greenlets) */
  uint64_t due_ns;    /* time at which to write the open calls */
  msp_writer *writer;
  struct msp_calls *previous, *following;
} msp_calls;

typedef struct {
  uint64_t least_ns;   /* calls that are shorter are left out */
  uint64_t since_ns;   /* begin of this period of tracing */
  uint32_t depth_most; /* depth up to which nested calls are recorded */
  uint32_t span;       /* number of the period; 0: nothing is traced */
  uint64_t seen;       /* calls so far */
} msp_tracing;

extern msp_tracing msp_calls_tracing;

/* msp_calls_begin begins a period of tracing. msp_calls_end ends the period, and writes the open calls of all
 * threads. */
void msp_calls_begin(uint64_t least_ns, uint32_t depth_most);
void msp_calls_end(void);

/* The rarely used parts of the inline functions below, which are not inline. */
msp_calls *msp_calls_make(msp_writer *writer);
bool msp_calls_grow(msp_calls *calls);
bool msp_calls_return_to(msp_calls *calls, const msp_callee *callee, uint64_t now);
void msp_calls_write_open(msp_calls *calls, uint64_t now);

/* Write and end all open calls of the thread. Called when the thread switches to another stack, for example that of a
 * greenlet, or when its calls are not known any more. */
void msp_calls_cut(msp_calls *calls, uint64_t now);

/* Called when a thread ends, or when its writer has closed the store. Afterwards no other thread reads the thread's
 * calls. */
void msp_calls_forget(msp_calls *calls);
void msp_calls_unlist(msp_calls *calls);
void msp_calls_free(msp_calls *calls);
void msp_calls_after_fork(msp_calls *own);

/* Return the calls of this thread; NULL if calls are not traced now. */
static inline msp_calls *msp_calls_get(void) {
  if (msp_calls_tracing.span == 0) return NULL;
  msp_writer *writer = msp_writer_get();
  if (writer == NULL || __builtin_expect(msp_gate_load(&writer->gate->refuse) != 0, 0)) return NULL;
  msp_calls *calls = writer->calls;
  return __builtin_expect(calls != NULL, 1) ? calls : msp_calls_make(writer);
}

/* Add an open (running) call that began at `start`. Returns false if the call is nested too deeply to be recorded. */
static inline bool msp_calls_push(msp_calls *calls, const msp_callee *callee, uint64_t start, uint8_t flags) {
  if (__builtin_expect(calls->depth == calls->room, 0) && !msp_calls_grow(calls)) {
    ++calls->beyond;
    return false;
  }
  calls->open[calls->depth++] = (msp_open_call){callee, start, flags};
  return true;
}

static inline void msp_calls_enter(msp_calls *calls, const msp_callee *callee, uint8_t flags) {
  ++msp_calls_tracing.seen;
  uint64_t now = msp_tsc_now(&calls->writer->tsc);
  if (msp_calls_push(calls, callee, now, flags) && __builtin_expect(now >= calls->due_ns, 0)) {
    msp_calls_write_open(calls, now);
  }
}

static inline void msp_calls_write(msp_writer *writer, const msp_open_call *call, uint64_t end_ns, uint32_t thread,
                                   uint8_t flags) {
  /* do not count this in `records`: the cost of traced calls is computed from msp_calls_tracing.seen */
  if (__builtin_expect(writer->next == writer->limit, 0) && !msp_writer_extend(writer, MSP_WORTH_FINE)) return;
  msp_slot_commit(writer->next++, call->start_ns, end_ns, call->callee->place | thread, call->callee->name,
                  msp_slot_word(MSP_KIND_CALL, MSP_CATEGORY_CALL, call->flags | flags, 0));
}

static inline void msp_calls_leave(msp_calls *calls, const msp_callee *callee, uint8_t flags) {
  uint64_t now = msp_tsc_now(&calls->writer->tsc);
  if (__builtin_expect(calls->beyond > 0, 0)) {
    --calls->beyond;
    return;
  }
  if (__builtin_expect(calls->depth == 0 || calls->open[calls->depth - 1].callee != callee, 0) &&
      !msp_calls_return_to(calls, callee, now)) {
    return;
  }
  const msp_open_call *call = &calls->open[--calls->depth];
  if (calls->written > calls->depth) {
    calls->written = calls->depth;
  } else if (now - call->start_ns < msp_calls_tracing.least_ns) {
    return;
  }
  msp_calls_write(calls->writer, call, now, 0, flags);
}

#endif
