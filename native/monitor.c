#include "monitor.h"

#include <stddef.h>
#include <structmember.h>

#include "calls.h"
#include "codes.h"
#include "tracer.h"

PyObject *msp_monitor_disable;

static PyObject *none(void) { Py_RETURN_NONE; }

static PyObject *disabled(void) {
  if (msp_monitor_disable == NULL) return none();
  Py_INCREF(msp_monitor_disable);
  return msp_monitor_disable;
}

static PyObject *enters(PyObject *object, uint8_t flags) {
  const msp_code *code = msp_tracer_code(object);
  if (code == NULL) return none();
  if (code->left_out) return disabled();
  msp_tracer_enter(NULL, object, flags, code);
  return none();
}

static PyObject *leaves(PyObject *object, uint8_t flags, bool can_disable) {
  msp_calls *calls = msp_tracer_calls(NULL, NULL);
  if (calls == NULL) return none();
  const msp_callee *last = calls->depth == 0 ? NULL : calls->open[calls->depth - 1].callee;
  if (__builtin_expect(last != NULL && last->key == object && calls->beyond == 0, 1)) {
    msp_calls_leave(calls, last, flags);
    return none();
  }
  const msp_code *code = msp_code_of(object);
  if (code == NULL) return none();
  if (code->left_out) return can_disable ? disabled() : none();
  msp_calls_leave(calls, &code->callee, flags);
  return none();
}

/* The callbacks of sys.monitoring are objects of the type `callback`, with vectorcall. A call of a module's function
 * would take 10 ns more. */
typedef PyObject *(*quick_call)(PyObject *self, PyObject *const *args, size_t count, PyObject *names);

typedef struct {
  PyObject head;
  quick_call call;
} callback;

#define COUNT_BITS (~((size_t)1 << (8 * sizeof(size_t) - 1))) /* all but PY_VECTORCALL_ARGUMENTS_OFFSET */
#define HAS_QUICK_CALL (1ul << 11)                            /* Py_TPFLAGS_HAVE_VECTORCALL */

#define EVENT(name, least, body)                                                                       \
  static PyObject *name(PyObject *self, PyObject *const *args, size_t count, PyObject *names) {        \
    (void)self;                                                                                        \
    (void)names;                                                                                       \
    if ((count & COUNT_BITS) < (least)) return PyErr_Format(PyExc_TypeError, "%d arguments", (least)); \
    body                                                                                               \
  }

EVENT(py_began, 1, return enters(args[0], 0);)
EVENT(py_resumed, 1, return enters(args[0], MSP_FLAG_RESUMED);)
EVENT(py_thrown, 1, enters(args[0], MSP_FLAG_RESUMED); return none();)
EVENT(py_returned, 1, return leaves(args[0], 0, true);)
EVENT(py_yielded, 1, return leaves(args[0], MSP_FLAG_YIELDED, true);)
EVENT(py_unwound, 1, return leaves(args[0], MSP_FLAG_RAISED, false);)

/* Return whether the innermost open (running) call is a call of the function `key`. This is the usual case. Then the
 * table's entry for the caller need not be looked up. */
static bool is_last(const msp_calls *calls, const void *key) {
  return calls->depth > 0 && calls->open[calls->depth - 1].callee->key == key;
}

static PyObject *c_enters(PyObject *code, PyObject *callable) {
  if (!msp_code_is_c(callable)) return none();
  msp_calls *calls = msp_tracer_calls(NULL, NULL);
  if (calls == NULL) return none();
  if (!is_last(calls, code)) {
    const msp_code *caller = msp_code_of(code);
    if (caller != NULL && caller->left_out) return disabled();
  }
  const msp_code *called = msp_code_of_c(callable);
  if (called != NULL && !called->left_out) msp_calls_enter(calls, &called->callee, 0);
  return none();
}

static PyObject *c_leaves(PyObject *code, PyObject *callable, uint8_t flags) {
  if (!msp_code_is_c(callable)) return none();
  msp_calls *calls = msp_tracer_calls(NULL, NULL);
  if (calls == NULL) return none();
  const msp_code *called = msp_code_of_c(callable);
  if (called == NULL || called->left_out) return none();
  if (!is_last(calls, called->key)) {
    const msp_code *caller = msp_code_of(code);
    if (caller != NULL && caller->left_out) return none();
  }
  msp_calls_leave(calls, &called->callee, flags);
  return none();
}

EVENT(py_c_began, 3, return c_enters(args[0], args[2]);)
EVENT(py_c_returned, 3, return c_leaves(args[0], args[2], 0);)
EVENT(py_c_raised, 3, return c_leaves(args[0], args[2], MSP_FLAG_RAISED);)

static const struct {
  const char *name;
  quick_call call;
} callbacks[] = {
    {"call_began", py_began},       {"call_resumed", py_resumed},       {"call_thrown", py_thrown},
    {"call_returned", py_returned}, {"call_yielded", py_yielded},       {"call_unwound", py_unwound},
    {"c_call_began", py_c_began},   {"c_call_returned", py_c_returned}, {"c_call_raised", py_c_raised},
};

static PyObject *callback_call(PyObject *self, PyObject *args, PyObject *names) {
  PyObject *items[4] = {NULL, NULL, NULL, NULL};
  size_t count = (size_t)PyTuple_Size(args);
  for (size_t i = 0; i < count && i < 4; ++i) items[i] = PyTuple_GetItem(args, (Py_ssize_t)i);
  return ((callback *)(void *)self)->call(self, items, count < 4 ? count : 4, names);
}

int msp_monitor_add(PyObject *module) {
  static PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(callback, call), READONLY, NULL},
                                  {NULL, 0, 0, 0, NULL}};
  static PyType_Slot slots[] = {{Py_tp_members, members}, {Py_tp_call, (void *)(uintptr_t)callback_call}, {0, NULL}};
  static PyType_Spec spec = {"ms_profiler._native.Callback", sizeof(callback), 0, Py_TPFLAGS_DEFAULT | HAS_QUICK_CALL,
                             slots};
  PyObject *type = PyType_FromSpec(&spec);
  int failed = type == NULL;
  for (size_t i = 0; !failed && i < sizeof callbacks / sizeof *callbacks; ++i) {
    PyObject *made = PyType_GenericAlloc((PyTypeObject *)(void *)type, 0);
    if (made != NULL) ((callback *)(void *)made)->call = callbacks[i].call;
    failed = made == NULL || PyObject_SetAttrString(module, callbacks[i].name, made) < 0;
    Py_XDECREF(made);
  }
  Py_XDECREF(type);
  return failed ? -1 : 0;
}
