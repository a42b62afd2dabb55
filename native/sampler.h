/* Sample the Python stacks of all threads.
 *
 * When a sample is due, the sampler's thread requests a pending call from the interpreter. The thread of the job that
 * runs Python makes this call between two of its bytecodes, and takes the sample in the call. The sampler does not take
 * the GIL for each sample: it would stop the running thread after 5 ms, at the cost of two context switches. If no
 * thread makes the call within a period, all threads run C code or wait. Then the sampler itself takes the GIL as soon
 * as it is free, and takes the sample.
 */
#ifndef MSP_SAMPLER_H
#define MSP_SAMPLER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add the functions of the sampler to the module: `sample_stacks`, `sample_no_stacks` and `find_pending`. Returns 0, or
 * -1 with an exception. */
int msp_sampler_add(PyObject *module);

#endif
