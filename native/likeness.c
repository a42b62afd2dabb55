#include "likeness.h"

#include <stdbool.h>

#include "wrapper.h"

/* Take attributes that the wrapper lacks, such as the code or the defaults, from the wrapped function. The type of the
 * wrapper has a `__module__`, too. */
PyObject *msp_likeness_getattr(PyObject *object, PyObject *name) {
  bool of_type = PyUnicode_CompareWithASCIIString(name, "__module__") == 0;
  PyObject *value = of_type ? NULL : PyObject_GenericGetAttr(object, name);
  if (value != NULL || (!of_type && !PyErr_ExceptionMatches(PyExc_AttributeError))) return value;
  PyErr_Clear();
  return PyObject_GetAttr(((msp_wrapper *)object)->function, name);
}

/* Set or delete an attribute of the wrapped function, which reads its defaults and its code there. */
int msp_likeness_setattr(PyObject *object, PyObject *name, PyObject *value) {
  PyObject *function = ((msp_wrapper *)object)->function;
  if (function == NULL || PyUnicode_CompareWithASCIIString(name, "idle") == 0) {
    return PyObject_GenericSetAttr(object, name, value);
  }
  return PyObject_SetAttr(function, name, value);
}

PyObject *msp_likeness_repr(PyObject *object) { return PyObject_Repr(((msp_wrapper *)object)->function); }

/* Hash and compare as the wrapped function does. So a table, such as PyTorch's, finds its entry by either object. */
Py_hash_t msp_likeness_hash(PyObject *object) { return PyObject_Hash(((msp_wrapper *)object)->function); }

PyObject *msp_likeness_compare(PyObject *object, PyObject *other, int how) {
  PyObject *own = ((msp_wrapper *)object)->function;
  PyObject *its = Py_TYPE(other) == Py_TYPE(object) ? ((msp_wrapper *)other)->function : other;
  if ((how != Py_EQ && how != Py_NE) || own == NULL || its == NULL) Py_RETURN_NOTIMPLEMENTED;
  return PyObject_RichCompare(own, its, how);
}

/* Pickle and copy the wrapper by its name, as Python does with functions. Other callables, such as the methods of a
 * type in C, say themselves how they are pickled. */
PyObject *msp_likeness_reduce(PyObject *object, PyObject *protocol) {
  PyObject *function = ((msp_wrapper *)object)->function;
  if (PyObject_HasAttrString(function, "__code__")) return PyObject_GetAttrString(object, "__qualname__");
  return PyObject_CallMethod(function, "__reduce_ex__", "O", protocol);
}

/* Return an attribute of the wrapped function. `inspect.isfunction`, Dynamo and MindSpore's parser need its class.
 * `help` and `inspect.getattr_static` read other attributes past `msp_likeness_getattr`. */
PyObject *msp_likeness_property(PyObject *object, void *name) {
  return PyObject_GetAttrString(((msp_wrapper *)object)->function, name);
}

PyObject *msp_likeness_plain_reduce(PyObject *object, PyObject *unused) {
  (void)unused;
  return PyObject_CallMethod(((msp_wrapper *)object)->function, "__reduce__", NULL);
}
