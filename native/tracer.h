/* Trace calls of Python: the interpreter reports calls, through sys.monitoring from 3.12 on and a profile function
 * before, and this code passes them to calls.h.
 *
 * None of these functions runs code of Python, waits, or raises.
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

/* Start or stop tracing after a change of the gate: calls are traced only while the gate admits them. With the GIL. */
void msp_tracer_settle(void);

/* The rare cases of the functions below. */
msp_calls *msp_tracer_refused(void);
void msp_tracer_turn(msp_calls *calls, PyFrameObject *frame, const PyObject *entered, const void *strand);

/* As msp_code_of; a function without room counts as dropped. */
const msp_code *msp_tracer_code(PyObject *code);

/* The calls of this thread; NULL if no call is to be noted.
 *
 * frame: the running frame, NULL for the innermost one.
 * entered: the code object that has just begun, or NULL. */
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
