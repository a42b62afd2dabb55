/* The object that replaces a function of a framework and records its calls, without a Python frame of its own.
 *
 * A frame of ours would cost the job depth of recursion, appear in its tracebacks and in `inspect.stack()`, and shift
 * the line that `warnings.warn(stacklevel=...)` names.
 */
#ifndef MSP_WRAPPER_H
#define MSP_WRAPPER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add the type `Wrapper` and its functions to a module. Returns 0, or -1 with an exception set. */
int msp_wrapper_add(PyObject *module);

#endif
