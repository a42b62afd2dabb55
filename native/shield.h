/* Keep exceptions of the job's signal handlers from being lost in callbacks of ours, such as those of the garbage
 * collector. When such a callback raises an exception, Python prints the exception instead of raising it.
 *
 * Python may call the job's signal handlers between any two instructions, also inside such a callback. Without this
 * code, an exception that a signal handler raises there, for example for a timeout, would be printed and lost.
 */
#ifndef MSP_SHIELD_H
#define MSP_SHIELD_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* Clear the current exception of Python, if there is one, in C code of ours that must raise none. An exception with a
 * traceback comes from Python code, which is a signal handler of the job here: the thread raises it after our code.
 * Returns whether that is so. */
bool msp_shield_clear(void);

/* Pass the current exception to a Python function. Returns true if the function handled the exception. Returns false,
 * with the exception set, if the exception is the job's, or if there is no function (NULL). */
bool msp_shield_handled(PyObject *failed);

/* Add the function `shield` to a module. Returns 0, or -1 with an exception set. */
int msp_shield_add(PyObject *module);

#endif
