/* The function of `ms_profiler._columns` that writes Perfetto's trace, as Python calls it. */
#ifndef MSP_PERFETTO_MODULE_H
#define MSP_PERFETTO_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* track_events(write, head, tracks, tables, columns, arguments, flows) -> the next free number for a sequence
 *
 * write      a function to call with bytes
 * head       (kind, base_ns, sequence, crossing_uuid, stride, further)
 * tracks     a list of (uuid, descriptor)
 * tables     a list of lists of texts
 * columns    (track, start_ns, end_ns, value, name, category); None for a column that this kind of events lacks
 * arguments  a list of (name, kind, column); the kind is the number of a table, None for integers, or True
 * flows      (event, id, ends)
 */
PyObject *msp_py_track_events(PyObject *self, PyObject *const *args, Py_ssize_t count);

#endif
