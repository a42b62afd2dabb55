/* Sample the Python stacks of all threads: a thread of ours sets the time, and the thread that has the GIL takes the
 * sample.
 *
 * A thread that requests the GIL stops the running one after 5 ms, at the cost of two context switches. So a thread
 * that runs Python takes the sample, between two of its bytecodes. If none does so for a period, all threads run C code
 * or wait. Then our thread takes the GIL, which is free, or is released when that code ends.
 */
#ifndef MSP_SAMPLER_H
#define MSP_SAMPLER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add the functions of the sampler to the module: `sample_stacks`, `sample_no_stacks` and `find_pending`. Returns 0, or
 * -1 with an exception. */
int msp_sampler_add(PyObject *module);

#endif
