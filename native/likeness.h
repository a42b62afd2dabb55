/* What makes a wrapper look like the function that it wraps: its attributes, text, hash, comparison, copy and class. */
#ifndef MSP_LIKENESS_H
#define MSP_LIKENESS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *msp_likeness_getattr(PyObject *object, PyObject *name);
int msp_likeness_setattr(PyObject *object, PyObject *name, PyObject *value);
PyObject *msp_likeness_repr(PyObject *object);
Py_hash_t msp_likeness_hash(PyObject *object);
PyObject *msp_likeness_compare(PyObject *object, PyObject *other, int how);
PyObject *msp_likeness_reduce(PyObject *object, PyObject *protocol);
PyObject *msp_likeness_property(PyObject *object, void *name);
PyObject *msp_likeness_plain_reduce(PyObject *object, PyObject *unused);

#endif
