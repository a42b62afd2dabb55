#include "fast_region.h"

#include <stdbool.h>

#include "observer.h"

static PyObject *original; /* PyTorch's class */
static PyObject *stand_in; /* our class, which replaces it */

typedef struct {
  PyObject ob_base;
  PyObject *theirs; /* an object of PyTorch's class */
  PyObject *name;
  bool open; /* the region was recorded here, and has not ended */
} region;

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *theirs = PyObject_Call(original, args, kwargs);
  if (theirs == NULL) return NULL;
  PyObject *name = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL;
  if (name == NULL && kwargs != NULL) name = PyDict_GetItemString(kwargs, "name");
  region *made = (region *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (made == NULL || name == NULL) {
    Py_XDECREF((PyObject *)made);
    Py_DECREF(theirs);
    return name == NULL && made != NULL ? PyErr_Format(PyExc_TypeError, "a region needs a name") : NULL;
  }
  made->theirs = theirs;
  made->name = name;
  Py_INCREF(name);
  return (PyObject *)made;
}

static void release(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  region *one = (region *)self;
  Py_XDECREF(one->theirs);
  Py_XDECREF(one->name);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF((PyObject *)type);
}

static PyObject *enter(PyObject *self, PyObject *unused) {
  (void)unused;
  region *one = (region *)self;
  uint32_t before = msp_observer_open();
  PyObject *result = PyObject_CallMethod(one->theirs, "__enter__", NULL);
  if (result == NULL || one->open || msp_observer_open() != before) return result;
  const char *name = PyUnicode_AsUTF8AndSize(one->name, NULL);
  if (name == NULL) {
    PyErr_Clear(); /* the name is no valid UTF-8 (a lone surrogate): the region is not recorded */
  } else {
    one->open = msp_observer_region(name, self);
  }
  return result;
}

static PyObject *leave(PyObject *self, PyObject *args) {
  region *one = (region *)self;
  PyObject *method = PyObject_GetAttrString(one->theirs, "__exit__");
  if (method == NULL) return NULL;
  PyObject *result = PyObject_Call(method, args, NULL);
  Py_DECREF(method);
  if (one->open) {
    one->open = false;
    msp_observer_region_end(self);
  }
  return result;
}

static PyMethodDef methods[] = {
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", leave, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, (void *)make}, {Py_tp_dealloc, (void *)release}, {Py_tp_methods, methods}, {0, NULL}};

static PyType_Spec spec = {"torch._C._profiler.RecordFunctionFast", sizeof(region), 0, Py_TPFLAGS_DEFAULT, slots};

static PyObject *fast_region(PyObject *self, PyObject *theirs) {
  (void)self;
  if (stand_in == NULL) stand_in = PyType_FromSpec(&spec);
  if (stand_in == NULL) return NULL;
  if (original == NULL) {
    original = theirs;
    Py_INCREF(original);
  }
  Py_INCREF(stand_in);
  return stand_in;
}

static PyMethodDef functions[] = {
    {"fast_region", fast_region, METH_O, "Return the class that replaces PyTorch's class of fast regions."},
    {NULL, NULL, 0, NULL},
};

int msp_fast_region_add(PyObject *module) { return PyModule_AddFunctions(module, functions); }
