/* The functions of `ms_profiler._columns` that read the records of a store (slots) and compute on spans, as Python
 * calls them. A lane is a group of spans that may contain each other, for example those of a thread.
 */
#ifndef MSP_SPANS_MODULE_H
#define MSP_SPANS_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Decode slots.
 *
 * coarse(pieces, wanted, every) -> tables of slots, of sums of fine spans by piece, and of starts of some fine spans
 * spans(pieces, wanted) -> table of spans
 * devices(pieces, wanted) -> calls, tasks of a device, and other records, see device_records.h; each is a list with a
 *     table for each column
 *
 * `pieces` is a list of bytes; each piece has the slots of one file of the store. `wanted` is the selection, see
 * msp_wanted: (names, lost, raw, offset, slope, (last_ns, window_start, window_end, from_ns, until_ns, fine,
 * earliest_ns, latest_ns)). `names` is a column of names by id, with `lost` for ids without a name; raw, offset and
 * slope are the knots of the clock. */
PyObject *msp_py_coarse(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *msp_py_spans(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *msp_py_devices(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* order(lane, start_ns, end_ns) -> table of `row` */
PyObject *msp_py_order(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* calls(lane, start_ns, end_ns, category, name) -> table of `module` and `inner`, see calls.h */
PyObject *msp_py_calls(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* sums(lane, start_ns, end_ns, key, counted) -> (table of sums, table of `open`), see sums.h */
PyObject *msp_py_sums(PyObject *self, PyObject *const *args, Py_ssize_t count);

#endif
