/* The traced calls of a thread: those that have not ended, and the slots of those that have.
 *
 * A slot is written when a call ends, with both of its times: 16 bytes for each of the two events. A call that has run
 * for a millisecond is written before its end, too, so that it is in the store when the process is killed. The thread
 * that begins or ends a call holds the GIL. Knows nothing of Python.
 */
#ifndef MSP_CALLS_H
#define MSP_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "writer.h"

#define MSP_TELL_NS 1000000u /* after which a thread writes its running calls */

/* A function in the form of its slots. */
typedef struct {
  const void *key; /* identifies the function */
  uint64_t place;  /* its place, as in MSP_KIND_CALL, without a thread */
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
  uint32_t told;      /* number of the outermost calls that are written already */
  uint32_t span;      /* the span of tracing that they belong to, 0: none */
  const void *strand; /* the running one of several stacks of the thread */
  uint64_t due_ns;    /* time at which to write the running calls */
  msp_writer *writer;
  struct msp_calls *previous, *following;
} msp_calls;

typedef struct {
  uint64_t least_ns;   /* calls that are shorter are left out */
  uint64_t since_ns;   /* begin of this span of tracing */
  uint32_t depth_most; /* depth up to which nested calls are recorded */
  uint32_t span;       /* number of the span; 0: nothing is traced */
  uint64_t seen;       /* calls so far */
} msp_tracing;

extern msp_tracing msp_calls_tracing;

/* Begin a span of tracing, or end it: then the running calls of all threads are written. */
void msp_calls_begin(uint64_t least_ns, uint32_t depth_most);
void msp_calls_end(void);

/* The rare cases of the functions below. */
msp_calls *msp_calls_make(msp_writer *writer);
bool msp_calls_grow(msp_calls *calls);
bool msp_calls_return_to(msp_calls *calls, const msp_callee *callee, uint64_t now);
void msp_calls_tell(msp_calls *calls, uint64_t now);

/* End all calls of the thread: they continue in another of its stacks, or are no longer known. */
void msp_calls_cut(msp_calls *calls, uint64_t now);

/* The writer of a thread has closed its store, or has come to its end: from then on no other thread looks at its
 * calls. */
void msp_calls_forget(msp_calls *calls);
void msp_calls_unlist(msp_calls *calls);
void msp_calls_free(msp_calls *calls);
void msp_calls_after_fork(msp_calls *own);

/* The calls of this thread while they are traced, or NULL. */
static inline msp_calls *msp_calls_get(void) {
  if (msp_calls_tracing.span == 0) return NULL;
  msp_writer *writer = msp_writer_get();
  if (writer == NULL || __builtin_expect(msp_gate_load(&writer->gate->refuse) != 0, 0)) return NULL;
  msp_calls *calls = writer->calls;
  return __builtin_expect(calls != NULL, 1) ? calls : msp_calls_make(writer);
}

/* Note a call that has been running since `start`. False: it is too deep to be recorded. */
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
    msp_calls_tell(calls, now);
  }
}

static inline void msp_calls_write(msp_writer *writer, const msp_open_call *call, uint64_t end_ns, uint32_t thread,
                                   uint8_t flags) {
  /* not counted as a record: the tracer itself reports its cost to the budget */
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
  if (calls->told > calls->depth) {
    calls->told = calls->depth;
  } else if (now - call->start_ns < msp_calls_tracing.least_ns) {
    return;
  }
  msp_calls_write(calls->writer, call, now, 0, flags);
}

#endif
