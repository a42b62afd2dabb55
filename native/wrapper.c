#include "wrapper.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

#include "writer.h"

/* Vectorcall joined the limited API with 3.12; the flag, the member and the functions are the same since 3.9. A type
 * without it is called through `tp_call`, which costs a level of recursion. */
#ifndef Py_TPFLAGS_HAVE_VECTORCALL
#define Py_TPFLAGS_HAVE_VECTORCALL (1UL << 11)
#endif
typedef PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);
extern PyObject *PyObject_Vectorcall(PyObject *, PyObject *const *, size_t, PyObject *) __attribute__((weak));
extern PyObject *PyObject_VectorcallDict(PyObject *, PyObject *const *, size_t, PyObject *);
extern PyObject *PyVectorcall_Call(PyObject *, PyObject *, PyObject *);
#define COUNT(flagged) ((Py_ssize_t)((flagged) & ~((size_t)1 << (8 * sizeof(size_t) - 1))))

typedef struct {
  PyObject ob_base;
  vectorcall call;
  PyObject *function; /* the wrapped function */
  PyObject *before;   /* called with the arguments; `after` gets its result */
  PyObject *after;    /* after(state, result, exception): not called where `state` is None */
  PyObject *labels;   /* {id(first argument): (name, category, argument of the span)} */
  PyObject *describe; /* describe(first argument): makes such a label; without `labels`, one for all calls */
  PyObject *failed;   /* failed(exception): of `before` and the like; raises exceptions of the job again */
  PyObject *forked;   /* a list: in a fork child that does not record yet, its session */
  PyObject *attributes, *references;
  uint32_t name; /* of the span, where neither arguments nor functions give another one */
  uint8_t category;
  uint8_t outermost; /* kind of calls of which only the outermost of a thread counts; 0: all count */
} wrapper;

static PyObject *method_type;
static PyObject *name_attribute;
/* How deep a thread is in calls of which only the outermost counts, by kind. */
enum { KINDS = 4 };
static __thread long depths[KINDS];

/* Call an object, by vectorcall where it has it; until Python 3.10 the one function that does so is no symbol. */
static PyObject *call(PyObject *callable, PyObject *const *args, size_t flagged, PyObject *names) {
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

/* Whether an exception of ours has been handled; false if the exception is the job's. */
static bool forgiven(const wrapper *self) {
  if (self->failed == NULL) return false;
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  PyErr_NormalizeException(&kind, &value, &trace);
  if (trace != NULL) PyException_SetTraceback(value, trace);
  PyObject *answer = PyObject_CallFunctionObjArgs(self->failed, value, NULL);
  Py_XDECREF(kind);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  Py_XDECREF(answer);
  return answer != NULL;
}

/* The flags of a span that the current exception ends: the end of an iteration is no failure, and neither is the
 * exception with which PyTorch stops a recomputation that has all it needs. */
static uint8_t flags_of_exception(void) {
  if (PyErr_ExceptionMatches(PyExc_StopIteration)) return 0;
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  PyObject *name = kind == NULL ? NULL : PyObject_GetAttr(kind, name_attribute);
  bool stops =
      name != NULL && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "_StopRecomputationError") == 0;
  Py_XDECREF(name);
  PyErr_Clear();
  PyErr_Restore(kind, value, trace);
  return stops ? 0 : MSP_FLAG_RAISED;
}

/* Begin a span; in a fork child that does not record yet, start its recording first. */
static bool begin(const wrapper *self, uint32_t name, uint8_t category, uint64_t arg, uint32_t *token) {
  *token = msp_begin(name, category, arg);
  if (*token != 0 || self->forked == NULL || PyList_Size(self->forked) == 0) return true;
  PyObject *session = PyList_GetItem(self->forked, 0);
  PyObject *done = session == NULL ? NULL : PyObject_CallMethod(session, "reopen", NULL);
  if (done == NULL && !forgiven(self)) return false;
  Py_XDECREF(done);
  *token = msp_begin(name, category, arg);
  return true;
}

static PyObject *recorded(const wrapper *self, uint32_t name, uint8_t category, uint64_t arg, PyObject *const *args,
                          size_t flagged, PyObject *names) {
  uint32_t token;
  if (!begin(self, name, category, arg, &token)) return NULL;
  if (self->outermost != 0) ++depths[self->outermost];
  PyObject *result = call(self->function, args, flagged, names);
  if (self->outermost != 0) --depths[self->outermost];
  if (token != 0) msp_end(token, result == NULL ? flags_of_exception() : 0);
  return result;
}

/* Tell `after` how a call ended. Returns the result of the call, or NULL with an exception set. */
static PyObject *told(const wrapper *self, PyObject *state, PyObject *result) {
  PyObject *kind = NULL, *value = NULL, *trace = NULL;
  if (result == NULL) {
    PyErr_Fetch(&kind, &value, &trace);
    PyErr_NormalizeException(&kind, &value, &trace);
    if (trace != NULL) PyException_SetTraceback(value, trace);
  }
  PyObject *answer = PyObject_CallFunctionObjArgs(self->after, state, result == NULL ? Py_None : result,
                                                  value == NULL ? Py_None : value, NULL);
  bool goes_on = answer != NULL || forgiven(self);
  Py_XDECREF(answer);
  if (goes_on) {
    if (result == NULL) PyErr_Restore(kind, value, trace);
    return result;
  }
  Py_XDECREF(kind);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  Py_XDECREF(result);
  return NULL;
}

static PyObject *hooked(const wrapper *self, PyObject *const *args, size_t flagged, PyObject *names) {
  PyObject *state = call(self->before, args, flagged, names);
  if (state == NULL && !forgiven(self)) return NULL;
  if (self->outermost != 0) ++depths[self->outermost];
  PyObject *result = call(self->function, args, flagged, names);
  if (self->outermost != 0) --depths[self->outermost];
  if (state != NULL && state != Py_None) result = told(self, state, result);
  Py_XDECREF(state);
  return result;
}

/* Read a label; an exception of `describe` that is not the job's leaves the span without a name. Returns false where
 * the label is none of a span. */
static bool read_label(const wrapper *self, PyObject *label, uint64_t values[3], bool *failed) {
  memset(values, 0, 3 * sizeof *values);
  values[1] = self->category;
  if (label == NULL) {
    *failed = !forgiven(self);
    return true;
  }
  bool plain = PyTuple_Check(label) && PyTuple_Size(label) == 3;
  for (Py_ssize_t i = 0; plain && i < 3; ++i) {
    values[i] = PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(label, i));
    if (values[i] == UINT64_MAX && PyErr_Occurred() != NULL) {
      PyErr_Clear();
      plain = false;
    }
  }
  return plain;
}

static PyObject *by_label(const wrapper *self, PyObject *const *args, size_t flagged, PyObject *names) {
  PyObject *key = PyLong_FromVoidPtr(args[0]);
  PyObject *label = key == NULL ? NULL : PyDict_GetItemWithError(self->labels, key);
  Py_XDECREF(key);
  Py_XINCREF(label);
  if (label == NULL && !PyErr_Occurred()) label = PyObject_CallFunctionObjArgs(self->describe, args[0], NULL);
  uint64_t values[3];
  bool failed = false, plain = read_label(self, label, values, &failed);
  Py_XDECREF(label);
  if (failed) return NULL;
  if (!plain) return hooked(self, args, flagged, names);
  return recorded(self, (uint32_t)values[0], (uint8_t)values[1], values[2], args, flagged, names);
}

/* Get the name of the spans of all calls, once. */
static bool named(wrapper *self, PyObject *first) {
  PyObject *label = PyObject_CallFunctionObjArgs(self->describe, first, NULL);
  uint64_t values[3];
  bool failed = false;
  if (read_label(self, label, values, &failed)) self->name = (uint32_t)values[0];
  Py_XDECREF(label);
  return !failed;
}

static PyObject *wrapper_vectorcall(PyObject *object, PyObject *const *args, size_t flagged, PyObject *names) {
  wrapper *self = (wrapper *)object;
  bool inner = self->outermost != 0 && depths[self->outermost] > 0;
  PyObject *result;
  Py_INCREF(object); /* the job may put something else in its place meanwhile */
  if (self->labels != NULL && COUNT(flagged) > 0 && (inner || self->outermost == 0)) {
    result = by_label(self, args, flagged, names);
  } else if (inner) {
    result = call(self->function, args, flagged, names);
  } else if (self->before != NULL) {
    result = hooked(self, args, flagged, names);
  } else if (self->name == 0 && self->describe != NULL && COUNT(flagged) > 0 && !named(self, args[0])) {
    result = NULL;
  } else {
    result = recorded(self, self->name, self->category, 0, args, flagged, names);
  }
  Py_DECREF(object);
  return result;
}

static int wrapper_init(PyObject *object, PyObject *args, PyObject *keywords) {
  static char *names[] = {"function", "name",   "category", "before",    "after", "labels",
                          "describe", "failed", "forked",   "outermost", NULL};
  wrapper *self = (wrapper *)object;
  PyObject *function, *before = NULL, *after = NULL, *labels = NULL, *describe = NULL, *failed = NULL, *forked = NULL;
  unsigned int name = 0;
  unsigned char category = 0, outermost = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|IbOOO!OOO!b", names, &function, &name, &category, &before, &after,
                                   &PyDict_Type, &labels, &describe, &failed, &PyList_Type, &forked, &outermost)) {
    return -1;
  }
  if (self->function != NULL || (before == NULL) != (after == NULL) ||
      (labels != NULL) != (before != NULL && describe != NULL) || outermost >= KINDS) {
    PyErr_SetString(PyExc_TypeError, "before and after go together, and with labels and describe");
    return -1;
  }
  PyObject **const places[] = {&self->function, &self->before, &self->after, &self->labels,
                               &self->describe, &self->failed, &self->forked};
  PyObject *const values[] = {function, before, after, labels, describe, failed, forked};
  for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
    Py_XINCREF(values[i]);
    *places[i] = values[i];
  }
  self->name = name;
  self->category = category;
  self->outermost = outermost;
  self->call = wrapper_vectorcall;
  return 0;
}

static int wrapper_traverse(PyObject *object, visitproc visit, void *arg) {
  wrapper *self = (wrapper *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->function);
  Py_VISIT(self->before);
  Py_VISIT(self->after);
  Py_VISIT(self->labels);
  Py_VISIT(self->describe);
  Py_VISIT(self->failed);
  Py_VISIT(self->forked);
  Py_VISIT(self->attributes);
  return 0;
}

static int wrapper_clear(PyObject *object) {
  wrapper *self = (wrapper *)object;
  Py_CLEAR(self->function);
  Py_CLEAR(self->before);
  Py_CLEAR(self->after);
  Py_CLEAR(self->labels);
  Py_CLEAR(self->describe);
  Py_CLEAR(self->failed);
  Py_CLEAR(self->forked);
  Py_CLEAR(self->attributes);
  return 0;
}

static void wrapper_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (((wrapper *)object)->references != NULL) PyObject_ClearWeakRefs(object);
  wrapper_clear(object);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

/* Bind to an instance as a function does. */
static PyObject *wrapper_get(PyObject *object, PyObject *instance, PyObject *type) {
  (void)type;
  if (instance == NULL || instance == Py_None) {
    Py_INCREF(object);
    return object;
  }
  return PyObject_CallFunctionObjArgs(method_type, object, instance, NULL);
}

/* Attributes that the wrapper lacks are those of the function: its code, its defaults. */
static PyObject *wrapper_getattr(PyObject *object, PyObject *name) {
  PyObject *value = PyObject_GenericGetAttr(object, name);
  if (value != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
  PyErr_Clear();
  return PyObject_GetAttr(((wrapper *)object)->function, name);
}

static PyObject *wrapper_repr(PyObject *object) { return PyObject_Repr(((wrapper *)object)->function); }

/* An operator of PyTorch has the hash of the function that it calls, and is a key of tables. */
static Py_hash_t wrapper_hash(PyObject *object) { return PyObject_Hash(((wrapper *)object)->function); }

/* Pickled and copied by its name, as the function is. */
static PyObject *wrapper_reduce(PyObject *object, PyObject *unused) {
  (void)unused;
  return PyObject_GetAttrString(object, "__qualname__");
}

/* The wrapper passes for a function: `inspect.isfunction`, Dynamo and MindSpore's parser require it. */
static PyObject *wrapper_class(PyObject *object, void *unused) {
  (void)unused;
  return PyObject_GetAttrString(((wrapper *)object)->function, "__class__");
}

static PyMethodDef methods[] = {
    {"__reduce__", wrapper_reduce, METH_NOARGS, "Return its name."},
    {"__reduce_ex__", wrapper_reduce, METH_O, "Return its name."},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(wrapper, call), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(wrapper, attributes), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(wrapper, references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef properties[] = {
    {"__class__", wrapper_class, NULL, NULL, NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define SLOT(slot, function) {slot, (void *)(uintptr_t)(function)}
static PyType_Slot slots[] = {
    SLOT(Py_tp_init, wrapper_init),
    SLOT(Py_tp_dealloc, wrapper_dealloc),
    SLOT(Py_tp_traverse, wrapper_traverse),
    SLOT(Py_tp_clear, wrapper_clear),
    SLOT(Py_tp_call, PyVectorcall_Call),
    SLOT(Py_tp_descr_get, wrapper_get),
    SLOT(Py_tp_getattro, wrapper_getattr),
    SLOT(Py_tp_repr, wrapper_repr),
    SLOT(Py_tp_methods, methods),
    SLOT(Py_tp_members, members),
    SLOT(Py_tp_getset, properties),
    SLOT(Py_tp_hash, wrapper_hash),
    {0, NULL},
};
static PyType_Spec spec = {
    .name = "ms_profiler._native.Wrapper",
    .basicsize = sizeof(wrapper),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .slots = slots,
};

static PyObject *nest(PyObject *module, PyObject *args) {
  (void)module;
  unsigned char kind;
  long levels;
  if (!PyArg_ParseTuple(args, "bl", &kind, &levels)) return NULL;
  if (kind >= KINDS) {
    PyErr_SetString(PyExc_ValueError, "there is no such kind");
    return NULL;
  }
  depths[kind] += levels;
  return PyLong_FromLong(depths[kind]);
}

static PyMethodDef functions[] = {
    {"nest", nest, METH_VARARGS, "Add to how deep this thread is in calls of a kind: nest(kind, levels) -> depth."},
    {NULL, NULL, 0, NULL},
};

int msp_wrapper_add(PyObject *module) {
  PyObject *types = PyImport_ImportModule("types");
  method_type = types == NULL ? NULL : PyObject_GetAttrString(types, "MethodType");
  Py_XDECREF(types);
  name_attribute = PyUnicode_InternFromString("__name__");
  if (method_type == NULL || name_attribute == NULL) return -1;
  PyObject *type = PyType_FromSpec(&spec);
  if (type == NULL) return -1;
  if (PyModule_AddObject(module, "Wrapper", type) < 0) {
    Py_DECREF(type);
    return -1;
  }
  return PyModule_AddFunctions(module, functions);
}
