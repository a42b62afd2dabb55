/* Strands: several stacks of Python on one thread, of which one runs. Greenlets are strands. With the GIL only. */
#ifndef MSP_STRANDS_H
#define MSP_STRANDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Returns the running greenlet with a reference; NULL while greenlets are not known to be in use. */
extern PyObject *(*msp_strand_running)(void);

/* Look whether greenlets have been imported. Runs no code of Python. */
void msp_strands_find(void);

/* A number that distinguishes the running strand from others of its thread. */
static inline const void *msp_strand(void) {
  if (__builtin_expect(msp_strand_running == NULL, 1)) return NULL;
  PyObject *running = msp_strand_running();
  Py_XDECREF(running); /* its thread holds it */
  return running;
}

#endif
