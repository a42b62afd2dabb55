#include "calls.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64u
#define ROOM_MOST (1u << 20) /* largest number of open calls: 24 MiB in a thread with endless recursion */

msp_tracing msp_calls_tracing;

static struct {
  pthread_mutex_t lock; /* protects the list of all threads' calls; a thread ends without the GIL */
  msp_calls *first;
  uint32_t last_span;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

msp_calls *msp_calls_make(msp_writer *writer) {
  if (writer->gate != msp_gate_page)
    return NULL; /* the thread measures the cost of recording, see msp_writer_scratch */
  msp_calls *calls = calloc(1, sizeof *calls);
  if (calls == NULL) return NULL;
  calls->writer = writer;
  writer->calls = calls;
  pthread_mutex_lock(&all.lock);
  calls->following = all.first;
  if (all.first != NULL) all.first->previous = calls;
  all.first = calls;
  pthread_mutex_unlock(&all.lock);
  return calls;
}

bool msp_calls_grow(msp_calls *calls) {
  uint32_t most = msp_calls_tracing.depth_most < ROOM_MOST ? msp_calls_tracing.depth_most : ROOM_MOST;
  uint32_t room = calls->room == 0 ? FIRST_ROOM : 2 * calls->room;
  if (room > most) room = most;
  msp_open_call *open = room > calls->room ? realloc(calls->open, room * sizeof *open) : NULL;
  if (open == NULL) {
    if (most != msp_calls_tracing.depth_most || room > calls->room) msp_writer_drop(calls->writer);
    return false;
  }
  calls->open = open;
  calls->room = room;
  return true;
}

/* Record the end of the inner calls when a call ends that is not the innermost one: the interpreter did not report
 * their ends. Returns false if the call that ends is not open. */
bool msp_calls_return_to(msp_calls *calls, const msp_callee *callee, uint64_t now) {
  uint32_t at = calls->depth;
  while (at > 0 && calls->open[at - 1].callee != callee) --at;
  if (at == 0) return false;
  while (calls->depth > at) msp_calls_write(calls->writer, &calls->open[--calls->depth], now, 0, MSP_FLAG_ABANDONED);
  if (calls->written > at) calls->written = at;
  return true;
}

void msp_calls_write_open(msp_calls *calls, uint64_t now) {
  for (; calls->written < calls->depth; ++calls->written) {
    msp_calls_write(calls->writer, &calls->open[calls->written], 0, 0, 0);
  }
  calls->due_ns = now + MSP_WRITE_OPEN_NS;
}

void msp_calls_cut(msp_calls *calls, uint64_t now) {
  while (calls->depth > 0) msp_calls_write(calls->writer, &calls->open[--calls->depth], now, 0, MSP_FLAG_ABANDONED);
  calls->written = calls->beyond = 0;
}

void msp_calls_forget(msp_calls *calls) {
  if (calls != NULL) calls->depth = calls->written = calls->beyond = calls->span = 0;
}

void msp_calls_unlist(msp_calls *calls) {
  if (calls == NULL) return;
  pthread_mutex_lock(&all.lock);
  if (calls->previous != NULL) {
    calls->previous->following = calls->following;
  } else {
    all.first = calls->following;
  }
  if (calls->following != NULL) calls->following->previous = calls->previous;
  pthread_mutex_unlock(&all.lock);
}

void msp_calls_free(msp_calls *calls) {
  if (calls == NULL) return;
  free(calls->open);
  free(calls);
}

void msp_calls_after_fork(msp_calls *own) {
  pthread_mutex_init(&all.lock, NULL);
  all.first = own;
  if (own == NULL) return;
  own->previous = own->following = NULL;
  msp_calls_forget(own);
}

void msp_calls_begin(uint64_t least_ns, uint32_t depth_most) {
  uint32_t span = ++all.last_span;
  if (span == 0) span = ++all.last_span;
  msp_calls_tracing.least_ns = least_ns;
  msp_calls_tracing.depth_most = depth_most;
  msp_calls_tracing.since_ns = msp_writer_now();
  msp_calls_tracing.span = span;
}

/* End the period of tracing. The caller holds the GIL, so no other thread begins or ends a call meanwhile. So this
 * function can write the open calls of all threads. */
void msp_calls_end(void) {
  if (msp_calls_tracing.span == 0) return;
  msp_writer *writer = msp_writer_get();
  uint64_t now = msp_writer_now();
  pthread_mutex_lock(&all.lock);
  for (msp_calls *calls = all.first; calls != NULL; calls = calls->following) {
    bool known = writer != NULL && writer->gate == msp_gate_page && calls->writer->session == writer->session;
    uint32_t number = calls->writer->number;
    bool own = calls->writer == writer;
    while (calls->depth > 0) {
      const msp_open_call *call = &calls->open[--calls->depth];
      if (!known || (!own && (number == 0 || number > MSP_FRAME_LINE_MOST))) continue;
      msp_calls_write(writer, call, now > call->start_ns ? now : call->start_ns, own ? 0 : number, MSP_FLAG_ABANDONED);
    }
    msp_calls_forget(calls);
  }
  pthread_mutex_unlock(&all.lock);
  msp_calls_tracing.span = 0;
}
