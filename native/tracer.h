/* Trace the calls of Python functions. From Python 3.12 on, the interpreter reports calls through callbacks of
 * sys.monitoring. Earlier versions report them to a profile function. This code passes the calls to calls.h, which
 * records them.
 *
 * The functions that run for each call execute no Python code, do not wait, and raise no exception.
 */
#ifndef MSP_TRACER_H
#define MSP_TRACER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

#include "calls.h"
#include "codes.h"
#include "strands.h"

/* Add the functions of the tracer to the module. Returns 0, or -1 with an exception. */
int msp_tracer_add(PyObject *module);

/* Start or stop tracing after a change of the gate, which says whether events are recorded. Calls are traced only while
 * the gate admits them. Called with the GIL. */
void msp_tracer_settle(void);

/* The slow path of msp_tracer_calls: the gate refuses calls, or the thread runs another stack now. */
msp_calls *msp_tracer_refused(void);
void msp_tracer_turn(msp_calls *calls, PyFrameObject *frame, const PyObject *entered, const void *strand);

/* Return the table's entry for a code object, as msp_code_of does. If there is no room for an entry, count the call as
 * dropped. */
const msp_code *msp_tracer_code(PyObject *code);

/* Return the list of open (running) calls of this thread; NULL if calls are not traced now.
 *
 * frame: the running frame; NULL: get it from the interpreter.
 * entered: the code object whose call has just begun, or NULL. */
static inline msp_calls *msp_tracer_calls(PyFrameObject *frame, const PyObject *entered) {
  msp_calls *calls = msp_calls_get();
  if (__builtin_expect(calls == NULL, 0)) return msp_tracer_refused();
  const void *strand = msp_strand();
  if (__builtin_expect(calls->span != msp_calls_tracing.span || calls->strand != strand, 0)) {
    msp_tracer_turn(calls, frame, entered, strand);
  }
  return calls;
}

static inline void msp_tracer_enter(PyFrameObject *frame, const PyObject *entered, uint8_t flags,
                                    const msp_code *code) {
  msp_calls *calls = msp_tracer_calls(frame, entered);
  if (calls != NULL) msp_calls_enter(calls, &code->callee, flags);
}

static inline void msp_tracer_leave(PyFrameObject *frame, const msp_code *code, uint8_t flags) {
  msp_calls *calls = msp_tracer_calls(frame, NULL);
  if (calls != NULL) msp_calls_leave(calls, &code->callee, flags);
}

#endif
