/* The functions of `ms_profiler._columns` that look up rows, as Python calls them. */
#ifndef MSP_LOOKUP_MODULE_H
#define MSP_LOOKUP_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* locate(times, start_ns, end_ns) -> table of `row`, null where a time is null or in no interval */
PyObject *msp_py_locate(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* find(first, second, known_first, known_second) -> table of `row`, null where a pair is not known */
PyObject *msp_py_find(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* latest(key, time, known_key, known_time) -> table of `row`, null where no row of the key is known at that time */
PyObject *msp_py_latest(PyObject *self, PyObject *const *args, Py_ssize_t count);

#endif
