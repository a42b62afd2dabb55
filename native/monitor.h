/* The callbacks of sys.monitoring (CPython 3.12 and later), which report Python's calls to the tracer. */
#ifndef MSP_MONITOR_H
#define MSP_MONITOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The object sys.monitoring.DISABLE; NULL before tracing begins. A callback that returns it is not called again for the
 * same code location. */
extern PyObject *msp_monitor_disable;

/* Add a callback to the module for each event. Returns 0, or -1 with an exception. */
int msp_monitor_add(PyObject *module);

#endif
