/* Declarations for vectorcall, CPython's faster calling convention, and for bound methods. The limited API of the
 * oldest supported Python lacks them. */
#ifndef MSP_VECTORCALL_H
#define MSP_VECTORCALL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The limited API has vectorcall from Python 3.12 on. The flag, the member and the functions are the same since 3.9, so
 * this file can declare them for older versions. Python calls a type without vectorcall through `tp_call`, which takes
 * one more level of recursion. */
#ifndef Py_TPFLAGS_HAVE_VECTORCALL
#define Py_TPFLAGS_HAVE_VECTORCALL (1UL << 11)
#endif
typedef PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);
extern PyObject *PyObject_Vectorcall(PyObject *, PyObject *const *, size_t, PyObject *) __attribute__((weak));
extern vectorcall PyVectorcall_Function(PyObject *) __attribute__((weak));
extern PyObject *PyObject_VectorcallDict(PyObject *, PyObject *const *, size_t, PyObject *);
extern PyObject *PyVectorcall_Call(PyObject *, PyObject *, PyObject *);
/* Bind a function to an instance. The limited API lacks this function. To call `types.MethodType` takes 130 ns more. */
extern PyObject *PyMethod_New(PyObject *, PyObject *);
#define COUNT(flagged) ((Py_ssize_t)((flagged) & ~((size_t)1 << (8 * sizeof(size_t) - 1))))

/* Call an object, through vectorcall if the object supports it. Python 3.10 does not export PyObject_Vectorcall. */
static inline PyObject *call(PyObject *callable, PyObject *const *args, size_t flagged, PyObject *names) {
  if (PyObject_Vectorcall != NULL) return PyObject_Vectorcall(callable, args, flagged, names);
  Py_ssize_t count = COUNT(flagged), named = names == NULL ? 0 : PyTuple_Size(names);
  if (named == 0) return PyObject_VectorcallDict(callable, args, flagged, NULL);
  PyObject *keywords = PyDict_New();
  for (Py_ssize_t i = 0; keywords != NULL && i < named; ++i) {
    if (PyDict_SetItem(keywords, PyTuple_GetItem(names, i), args[count + i]) < 0) Py_CLEAR(keywords);
  }
  if (keywords == NULL) return NULL;
  PyObject *result = PyObject_VectorcallDict(callable, args, flagged, keywords);
  Py_DECREF(keywords);
  return result;
}

#endif
