#include "pending.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Python's function that adds a pending call; it is not part of the public API. From Python 3.12 on, it has a fourth
 * argument, and 0 means that any thread may run the call. Then the thread with the GIL runs the call at once. */
extern int _PyEval_AddPendingCall(PyInterpreterState *interpreter, int (*call)(void *), void *of, int how)
    __attribute__((weak));

/* Up to Python 3.11, only the main thread runs pending calls. A flag of the interpreter tells the main thread to stop
 * between two bytecodes. When another thread adds a call, Python does not set this flag. Then the main thread would
 * notice the call only when it next takes the GIL. So our code sets the flag. The flag is in the interpreter's state,
 * at an offset that depends on the version. To find it, msp_pending_find adds calls on the main thread, and looks for
 * the words that change. This is the layout, with offsets from the pointer to the calls' lock:
 *
 *     four words, one of which is the flag     calls_to_do, async_exc     calls      first, last
 *     ^ -16                                    ^ 8          ^ 12          ^ 16       ^ 528   ^ 532
 */
enum { CALLS = 32, FLAGS = 4, SEARCHED_BYTES = 8192, TRIES = 1000 };

typedef struct {
  int (*function)(void *);
  void *of;
} pending_call;

typedef struct {
  uint32_t flags[FLAGS];
  void *lock;
  uint32_t to_do, exception;
  pending_call calls[CALLS];
  uint32_t first, last;
} pending_calls;

static struct {
  msp_pending_state state;
  PyInterpreterState *interpreter;
  bool any_thread;
  const pending_calls *calls;
  uint32_t *flag;
  int tries;
} pending;

static int do_nothing(void *unused) {
  (void)unused;
  return 0;
}

static uint32_t loaded(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }

/* Return whether `calls` can be Python's list of pending calls: only the call `at` waits in it, and the other fields
 * have possible values. */
static bool fits(const pending_calls *calls, const pending_call *at) {
  uint32_t place = (uint32_t)(at - calls->calls);
  if (calls->first >= CALLS || calls->last != (place + 1) % CALLS || loaded(&calls->to_do) != 1) return false;
  return calls->exception <= 1 && calls->lock != NULL && ((uintptr_t)calls->lock & 7) == 0;
}

/* Find Python's list of pending calls in the interpreter's state. A call with the argument `mark` has just been added
 * to it. Returns NULL if no place or several places fit. */
static const pending_calls *found(const void *mark) {
  const char *start = (const char *)pending.interpreter;
  const pending_calls *only = NULL;
  for (size_t at = offsetof(pending_calls, calls); at < SEARCHED_BYTES; at += sizeof(void *)) {
    const pending_call *call = (const pending_call *)(const void *)(start + at);
    if (call->function != do_nothing || call->of != mark) continue;
    for (size_t place = 0; place < CALLS; ++place) {
      size_t before = offsetof(pending_calls, calls) + place * sizeof *call;
      if (before > at) break;
      const pending_calls *calls = (const pending_calls *)(const void *)(start + at - before);
      if (!fits(calls, call)) continue;
      if (only != NULL) return NULL;
      only = calls;
    }
  }
  return only;
}

/* Find the flag that stops the main thread: add a pending call, and return the word that changes from 0 to 1. Returns
 * NULL if several words change. */
static uint32_t *changed(void) {
  uint32_t before[FLAGS];
  uint32_t *flags = (uint32_t *)(uintptr_t)pending.calls->flags, *only = NULL;
  for (size_t i = 0; i < FLAGS; ++i) before[i] = loaded(&flags[i]);
  if (loaded(&pending.calls->to_do) != 0 || Py_AddPendingCall(do_nothing, NULL) != 0) return NULL;
  for (size_t i = 0; i < FLAGS; ++i) {
    if (loaded(&flags[i]) == before[i]) continue;
    if (only != NULL || before[i] != 0 || loaded(&flags[i]) != 1)
      return NULL; /* another thread has requested the GIL, which changes another word */
    only = &flags[i];
  }
  return only;
}

msp_pending_state msp_pending_find(void) {
  static const char mark;
  if (pending.state != MSP_PENDING_UNKNOWN) return pending.state;
  if (pending.interpreter == NULL) {
    pending.interpreter = PyInterpreterState_Get();
    const char *minor = strchr(Py_GetVersion(), '.');
    pending.any_thread = minor != NULL && atoi(minor + 1) >= 12;
  }
  if (pending.any_thread) {
    bool works = _PyEval_AddPendingCall != NULL;
    return pending.state = works ? MSP_PENDING_WORKS : MSP_PENDING_IMPOSSIBLE;
  }
  if (++pending.tries > TRIES) return pending.state = MSP_PENDING_IMPOSSIBLE;
  if (pending.calls == NULL) {
    if (Py_AddPendingCall(do_nothing, (void *)(uintptr_t)&mark) == 0) pending.calls = found(&mark);
  } else {
    pending.flag = changed();
    if (pending.flag != NULL) pending.state = MSP_PENDING_WORKS;
  }
  return pending.state;
}

bool msp_pending_ask(int (*call)(void *)) {
  if (pending.state != MSP_PENDING_WORKS) return false;
  if (pending.any_thread) return _PyEval_AddPendingCall(pending.interpreter, call, NULL, 0) == 0;
  if (Py_AddPendingCall(call, NULL) != 0) return false;
  __atomic_store_n(pending.flag, 1, __ATOMIC_RELAXED);
  return true;
}
