/* What sys.monitoring calls, which CPython has from 3.12 on: the calls of Python, told to the tracer. */
#ifndef MSP_MONITOR_H
#define MSP_MONITOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* What tells sys.monitoring that no call of a place is of interest; NULL before tracing begins. */
extern PyObject *msp_monitor_disable;

/* Add an object to the module for each event. Returns 0, or -1 with an exception. */
int msp_monitor_add(PyObject *module);

#endif
