/* Samples of the Python stacks of all threads: a thread of ours says when, and whoever has the GIL anyway looks.
 *
 * A thread that asks for the GIL has the running one stop: 5 ms later, for two changes of context. So a thread that
 * runs Python is asked to look, between two of its bytecodes. Where none does for a period, all of them run C code or
 * wait; our thread takes the GIL, which is free then, or is left when that code ends.
 */
#ifndef MSP_SAMPLER_H
#define MSP_SAMPLER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add the functions of the sampler to the module: `sample_stacks`, `sample_no_stacks` and `find_pending`. Returns 0, or
 * -1 with an exception. */
int msp_sampler_add(PyObject *module);

#endif
