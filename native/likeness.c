#include "likeness.h"

#include "wrapper.h"

/* Take attributes that the wrapper lacks, such as the code or the defaults, from the wrapped function. A method of a
 * type in C has no `__module__`, but the type of the wrapper has one. */
PyObject *msp_likeness_getattr(PyObject *object, PyObject *name) {
  const msp_wrapper *self = (msp_wrapper *)object;
  bool of_type = PyUnicode_CompareWithASCIIString(name, "__module__") == 0 &&
                 (self->attributes == NULL || PyDict_GetItemString(self->attributes, "__module__") == NULL);
  PyObject *value = of_type ? NULL : PyObject_GenericGetAttr(object, name);
  if (value != NULL || (!of_type && !PyErr_ExceptionMatches(PyExc_AttributeError))) return value;
  PyErr_Clear();
  return PyObject_GetAttr(self->function, name);
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

/* Return the class of the wrapped function, because `inspect.isfunction`, Dynamo and MindSpore's parser need it. */
PyObject *msp_likeness_class(PyObject *object, void *unused) {
  (void)unused;
  return PyObject_GetAttrString(((msp_wrapper *)object)->function, "__class__");
}

PyObject *msp_likeness_plain_reduce(PyObject *object, PyObject *unused) {
  (void)unused;
  return PyObject_CallMethod(((msp_wrapper *)object)->function, "__reduce__", NULL);
}
