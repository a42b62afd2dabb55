/* The object that replaces a function of a framework and records its calls, without a Python frame.
 *
 * A wrapper in Python would have a frame, which counts towards the recursion limit, appears in tracebacks and in
 * `inspect.stack()`, and changes the line that `warnings.warn(stacklevel=...)` reports.
 */
#ifndef MSP_WRAPPER_H
#define MSP_WRAPPER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add the type `Wrapper` and its functions to a module. Returns 0, or -1 with an exception set. */
int msp_wrapper_add(PyObject *module);

#endif
