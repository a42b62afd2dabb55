/* Functions whose exceptions Python prints instead of raising them, such as callbacks of the garbage collector.
 *
 * Python may call the job's signal handlers between any two instructions, also inside of such a function. Without this
 * code, an exception that a handler raises there, for example a timeout, would be printed and lost.
 */
#ifndef MSP_SHIELD_H
#define MSP_SHIELD_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add the function `shield` to a module. Returns 0, or -1 with an exception set. */
int msp_shield_add(PyObject *module);

#endif
