/* The callbacks of sys.monitoring, which CPython has from 3.12 on: they report the calls of Python to the tracer. */
#ifndef MSP_MONITOR_H
#define MSP_MONITOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* sys.monitoring's object for "report no more calls of this place"; NULL before tracing begins. */
extern PyObject *msp_monitor_disable;

/* Add an object to the module for each event. Returns 0, or -1 with an exception. */
int msp_monitor_add(PyObject *module);

#endif
