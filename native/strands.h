/* A strand is one of several Python stacks on one thread, for example a greenlet. One strand of a thread runs at a
 * time. All callers hold the GIL. */
#ifndef MSP_STRANDS_H
#define MSP_STRANDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* greenlet's function that returns a new reference to the running greenlet; NULL while greenlet is not imported. */
extern PyObject *(*msp_strand_running)(void);

/* Set msp_strand_running if greenlet has been imported. Runs no Python code. */
void msp_strands_find(void);

/* Return an address that identifies the running strand (greenlet) among those of its thread; NULL without greenlets. */
static inline const void *msp_strand(void) {
  if (__builtin_expect(msp_strand_running == NULL, 1)) return NULL;
  PyObject *running = msp_strand_running();
  Py_XDECREF(running); /* the thread has another reference */
  return running;
}

#endif
