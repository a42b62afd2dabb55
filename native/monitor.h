/* The callbacks of sys.monitoring (CPython 3.12 and later), which report Python's calls to the tracer. */
#ifndef MSP_MONITOR_H
#define MSP_MONITOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The object sys.monitoring.DISABLE; NULL before tracing begins. When a callback returns this object, the interpreter
 * does not call the callback again for the same code location. */
extern PyObject *msp_monitor_disable;

/* Add one callback for each event of sys.monitoring to the module. Returns 0, or -1 with an exception. */
int msp_monitor_add(PyObject *module);

#endif
