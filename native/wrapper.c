#include "wrapper.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

#include "heap_type.h"
#include "hot.h"
#include "likeness.h"
#include "optimizers.h"
#include "shield.h"
#include "steps.h"
#include "writer.h"

typedef msp_wrapper wrapper;

static PyObject *name_attribute;
/* Number of open calls on this thread, for each kind of wrapped functions (field `outermost` of `wrapper`). */
enum { KINDS = 4 };
static __thread long depths[KINDS];

static PyObject *run(const wrapper *self, PyObject *const *args, size_t flagged, PyObject *names) {
  msp_steps_leave();
  PyObject *result = call(self->function, args, flagged, names);
  msp_steps_enter();
  return result;
}

/* Return the flags for a span that the current exception ends. Two exceptions are no failure: StopIteration, and the
 * exception by which PyTorch stops a recomputation early. */
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

/* Begin a span. In a fork child that does not record yet, start recording first. */
static bool begin(const wrapper *self, uint32_t name, uint8_t category, uint64_t arg, uint32_t *token) {
  *token = msp_begin(name, category, arg);
  if (*token != 0 || self->forked == NULL || PyList_Size(self->forked) == 0) return true;
  PyObject *session = PyList_GetItem(self->forked, 0);
  PyObject *done = session == NULL ? NULL : PyObject_CallMethod(session, "reopen", NULL);
  if (done == NULL && !msp_shield_handled(self->failed)) return false;
  Py_XDECREF(done);
  *token = msp_begin(name, category, arg);
  return true;
}

/* Call the wrapped function, and record the call as a span. */
static PyObject *recorded(const wrapper *self, uint32_t name, uint8_t category, uint64_t arg, PyObject *const *args,
                          size_t flagged, PyObject *names) {
  uint32_t token;
  if (!begin(self, name, category, arg, &token)) return NULL;
  if (self->outermost != 0) ++depths[self->outermost];
  PyObject *result = run(self, args, flagged, names);
  if (self->outermost != 0) --depths[self->outermost];
  if (token != 0) msp_end(token, result == NULL ? flags_of_exception() : 0);
  return result;
}

/* Call `after` with the result or exception of the wrapped function. Returns the result; NULL: an exception is set. */
static PyObject *call_after(const wrapper *self, PyObject *state, PyObject *result) {
  PyObject *kind = NULL, *value = NULL, *trace = NULL;
  if (result == NULL) {
    PyErr_Fetch(&kind, &value, &trace);
    PyErr_NormalizeException(&kind, &value, &trace);
    if (trace != NULL) PyException_SetTraceback(value, trace);
  }
  PyObject *answer = PyObject_CallFunctionObjArgs(self->after, state, result == NULL ? Py_None : result,
                                                  value == NULL ? Py_None : value, NULL);
  bool succeeded = answer != NULL || msp_shield_handled(self->failed);
  Py_XDECREF(answer);
  if (succeeded) {
    if (result == NULL) PyErr_Restore(kind, value, trace);
    return result;
  }
  Py_XDECREF(kind);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  Py_XDECREF(result);
  return NULL;
}

/* Call the Python function `before`, the wrapped function, and the Python function `after`. */
static PyObject *hooked(const wrapper *self, PyObject *const *args, size_t flagged, PyObject *names) {
  PyObject *state = call(self->before, args, flagged, names);
  if (state == NULL && !msp_shield_handled(self->failed)) return NULL;
  if (self->outermost != 0) ++depths[self->outermost];
  PyObject *result = run(self, args, flagged, names);
  if (self->outermost != 0) --depths[self->outermost];
  if (state != NULL && state != Py_None) result = call_after(self, state, result);
  Py_XDECREF(state);
  return result;
}

/* Read the label of a span into `values`. When `describe` raised an exception (`label` is NULL), the span gets no name,
 * and `*failed` is set if the exception is the job's. Returns false if the label is no tuple of numbers: the call gets
 * no span. */
static bool read_label(const wrapper *self, PyObject *label, uint64_t values[3], bool *failed) {
  memset(values, 0, 3 * sizeof *values);
  values[1] = self->category;
  if (label == NULL) {
    *failed = !msp_shield_handled(self->failed);
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

/* Record a call as a span with a label, and give up its reference. Without a tuple of numbers, call `hooked`. */
static PyObject *labelled(const wrapper *self, PyObject *label, PyObject *const *args, size_t flagged,
                          PyObject *names) {
  uint64_t values[3];
  bool failed = false, plain = read_label(self, label, values, &failed);
  Py_XDECREF(label);
  if (failed) return NULL;
  if (!plain) return hooked(self, args, flagged, names);
  return recorded(self, (uint32_t)values[0], (uint8_t)values[1], values[2], args, flagged, names);
}

/* Call the wrapped function, and record a span with the label of its first argument. */
static PyObject *by_label(const wrapper *self, PyObject *const *args, size_t flagged, PyObject *names) {
  PyObject *label = msp_by_id(self->labels, args[0]);
  Py_XINCREF(label);
  if (label == NULL && !PyErr_Occurred()) label = PyObject_CallFunctionObjArgs(self->describe, args[0], NULL);
  return labelled(self, label, args, flagged, names);
}

/* Call the wrapped function, which waits for a batch, and record the wait with the label of its iterator. When there is
 * no batch left, call `after`. */
static PyObject *waited(const wrapper *self, PyObject *const *args, size_t flagged, PyObject *names) {
  PyObject *label = msp_by_id(self->shortcut.known, args[0]); /* `msp_shortcut_take` has found it */
  Py_XINCREF(label);
  PyObject *result = labelled(self, label, args, flagged, names);
  if (result != NULL) return result;
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  PyObject *ended = Py_BuildValue("(i)", 0); /* as from `before`: the token 0, because the span has ended */
  PyErr_Clear();
  PyErr_Restore(kind, value, trace);
  if (ended != NULL) result = call_after(self, ended, NULL);
  Py_XDECREF(ended);
  return result;
}

/* Get the name for the spans of all calls from `describe`. Returns false if that raised an exception of the job. */
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
  size_t count = (size_t)COUNT(flagged);
  bool inner = self->outermost != 0 && depths[self->outermost] > 0;
  PyObject *result;
  Py_INCREF(object); /* the job may remove the wrapper during the call */
  msp_steps_call();
  if (self->shortcut.kind != 0 && !inner && (self->forked == NULL || PyList_Size(self->forked) == 0) &&
      msp_shortcut_take(&self->shortcut, args, count, names)) {
    result = self->shortcut.kind == MSP_WAIT
                 ? waited(self, args, flagged, names)
                 : recorded(self, self->shortcut.name, self->shortcut.category, 0, args, flagged, names);
  } else if (self->labels != NULL && count > 0 &&
             (inner ? !msp_writer_leaves_out(self->category) : self->outermost == 0)) {
    result = by_label(self, args, flagged, names);
  } else if (inner || self->idle) {
    result = run(self, args, flagged, names);
  } else if (self->before != NULL) {
    result = hooked(self, args, flagged, names);
  } else if (self->name == 0 && self->describe != NULL && count > 0 && !named(self, args[0])) {
    result = NULL;
  } else {
    result = recorded(self, self->name, self->category, 0, args, flagged, names);
  }
  Py_DECREF(object);
  msp_steps_leave();
  return result;
}

/* The calls of a wrapper at rest. The wrapper is not used after the call, so the caller's reference to it is enough. */
MSP_HOT static PyObject *call_directly(PyObject *object, PyObject *const *args, size_t flagged, PyObject *names) {
  const wrapper *self = (const wrapper *)object;
  return self->direct(self->function, args, flagged, names);
}

MSP_HOT static PyObject *call_function(PyObject *object, PyObject *const *args, size_t flagged, PyObject *names) {
  return call(((const wrapper *)object)->function, args, flagged, names);
}

static wrapper *newest;  /* of the wrappers with `rests` */
static vectorcall usual; /* what calls functions of Python; NULL: unknown */

static void set_call(wrapper *self) {
  /* A compiler may give a function another address, and take it back at any time; a wrapper changes its own. */
  bool plain = usual != NULL && PyVectorcall_Function(self->function) == usual;
  self->call = !self->rests || !msp_resting ? wrapper_vectorcall : plain ? call_directly : call_function;
}

void msp_wrappers_rest(void) {
  for (wrapper *each = newest; each != NULL; each = each->older) set_call(each);
}

/* Add a wrapper with `rests` to the list of them. */
static void enlist(wrapper *self) {
  self->older = newest;
  if (newest != NULL) newest->newer = self;
  newest = self;
}

static void strike(const wrapper *self) {
  if (self == newest) newest = self->older;
  if (self->older != NULL) self->older->newer = self->newer;
  if (self->newer != NULL) self->newer->older = self->older;
}

static int wrapper_init(PyObject *object, PyObject *args, PyObject *keywords) {
  static char *names[] = {"function", "name",   "category",  "before", "after",    "labels", "describe",
                          "failed",   "forked", "outermost", "idle",   "shortcut", "rests",  NULL};
  wrapper *self = (wrapper *)object;
  PyObject *function, *before = NULL, *after = NULL, *labels = NULL, *describe = NULL, *failed = NULL, *forked = NULL;
  PyObject *shortcut = NULL;
  unsigned int name = 0;
  unsigned char category = 0, outermost = 0, idle = 0, rests = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|IbOOO!OOO!bbO!b", names, &function, &name, &category, &before,
                                   &after, &PyDict_Type, &labels, &describe, &failed, &PyList_Type, &forked, &outermost,
                                   &idle, &PyTuple_Type, &shortcut, &rests)) {
    return -1;
  }
  if (self->function != NULL || (before == NULL) != (after == NULL) ||
      (labels != NULL) != (before != NULL && describe != NULL) || outermost >= KINDS) {
    PyErr_SetString(PyExc_TypeError,
                    "give before and after together, labels only with both and describe, outermost below 4");
    return -1;
  }
  if (shortcut != NULL && !msp_shortcut_set(&self->shortcut, shortcut)) return -1;
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
  self->idle = (char)idle;
  self->rests = rests != 0;
  self->direct = usual;
  if (self->rests) enlist(self);
  set_call(self);
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
  return msp_shortcut_visit(&self->shortcut, visit, arg);
}

static int wrapper_clear(PyObject *object) {
  wrapper *self = (wrapper *)object;
  if (self->rests) strike(self);
  self->rests = 0;
  self->call = NULL; /* a call of a wrapper that has lost its function fails with a TypeError */
  Py_CLEAR(self->function);
  Py_CLEAR(self->before);
  Py_CLEAR(self->after);
  Py_CLEAR(self->labels);
  Py_CLEAR(self->describe);
  Py_CLEAR(self->failed);
  Py_CLEAR(self->forked);
  msp_shortcut_clear(&self->shortcut);
  return 0;
}

static void wrapper_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object); /* before code of the job may run; msp_release may do it again */
  if (((wrapper *)object)->references != NULL) PyObject_ClearWeakRefs(object);
  msp_release(object, wrapper_clear);
}

/* Bind the wrapper to an instance, as Python binds a function to make a method. */
static PyObject *wrapper_get(PyObject *object, PyObject *instance, PyObject *type) {
  (void)type;
  if (instance == NULL || instance == Py_None) {
    Py_INCREF(object);
    return object;
  }
  return PyMethod_New(object, instance);
}

static PyMethodDef methods[] = {
    {"__reduce__", msp_likeness_plain_reduce, METH_NOARGS, "Return what the wrapped function returns."},
    {"__reduce_ex__", msp_likeness_reduce, METH_O, "Return what pickles the wrapped function."},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(wrapper, call), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(wrapper, references), READONLY, NULL},
    {"__wrapped__", T_OBJECT_EX, offsetof(wrapper, function), READONLY, NULL},
    {"idle", T_BOOL, offsetof(wrapper, idle), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef properties[] = {
    {"__class__", msp_likeness_property, NULL, NULL, "__class__"},
    {"__dict__", msp_likeness_property, NULL, NULL, "__dict__"},
    {"__doc__", msp_likeness_property, NULL, NULL, "__doc__"},
    {"__name__", msp_likeness_property, NULL, NULL, "__name__"},
    {"__qualname__", msp_likeness_property, NULL, NULL, "__qualname__"},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_init, wrapper_init),
    SLOT(Py_tp_dealloc, wrapper_dealloc),
    SLOT(Py_tp_traverse, wrapper_traverse),
    SLOT(Py_tp_clear, wrapper_clear),
    SLOT(Py_tp_call, PyVectorcall_Call),
    SLOT(Py_tp_descr_get, wrapper_get),
    SLOT(Py_tp_getattro, msp_likeness_getattr),
    SLOT(Py_tp_setattro, msp_likeness_setattr),
    SLOT(Py_tp_repr, msp_likeness_repr),
    SLOT(Py_tp_methods, methods),
    SLOT(Py_tp_members, members),
    SLOT(Py_tp_getset, properties),
    SLOT(Py_tp_hash, msp_likeness_hash),
    SLOT(Py_tp_richcompare, msp_likeness_compare),
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
  if (kind >= KINDS) return PyErr_Format(PyExc_ValueError, "the kind is too large");
  depths[kind] += levels;
  return PyLong_FromLong(depths[kind]);
}

static PyMethodDef functions[] = {
    {"nest", nest, METH_VARARGS,
     "Change the number of this thread's open calls of a kind: nest(kind, levels) -> new number."},
    {NULL, NULL, 0, NULL},
};

/* Find what calls functions of Python, from any such function. Returns false with an exception set. */
static bool find_usual(void) {
  if (PyVectorcall_Function == NULL) return true;
  PyObject *os = PyImport_ImportModule("os"), *function = os == NULL ? NULL : PyObject_GetAttrString(os, "getenv");
  if (function != NULL) usual = PyVectorcall_Function(function);
  Py_XDECREF(os);
  Py_XDECREF(function);
  return function != NULL;
}

int msp_wrapper_add(PyObject *module) {
  name_attribute = PyUnicode_InternFromString("__name__");
  if (name_attribute == NULL || !msp_shortcut_init() || !find_usual()) return -1;
  PyObject *type = PyType_FromSpec(&spec);
  if (type == NULL || PyModule_AddObject(module, "Wrapper", type) < 0) {
    Py_XDECREF(type);
    return -1;
  }
  return PyModule_AddFunctions(module, functions);
}
