#include "steps.h"

#include <stddef.h>
#include <structmember.h>

#include "heap_type.h"
#include "hot.h"
#include "writer.h"

enum { OPTIMIZER_CYCLE = 3, NETWORK_CALL = 7 }; /* values of StepSource in store/format.py */
enum { TIMES = 1024 };                          /* number of timed steps whose times are kept */
enum { LENGTHS = 512 };                         /* number of steps whose lengths are kept */

typedef struct {
  PyObject ob_base;
  uint64_t start; /* begin of the running step, ns */
  char runs;      /* whether a step runs */
} track;

typedef struct {
  PyObject ob_base;
  unsigned long thread;
} listener;

/* The state of the Python class `Steps` (job/steps.py). The fields have the names of its attributes, and are described
 * there. */
typedef struct {
  PyObject ob_base;
  long long count, revoked, next_look, long_ns, last_ns, ended_ns;
  unsigned long long lone; /* see msp_steps_lone */
  PyObject *chosen;        /* a `Track`: the boundaries that the chosen source of steps reports; NULL: not set yet */
  PyObject *listener;      /* a `Listener`; NULL: not set yet */
  PyObject *stepped;
  unsigned int name;
  unsigned char quick; /* number of the chosen source if each of its boundaries ends a step; otherwise 0 */
  unsigned char flags;
  char worked, exhausted;
  uint64_t ended;            /* number of lengths written so far */
  uint32_t lengths[LENGTHS]; /* lengths of the last steps, ns; a ring */
} steps;

unsigned long msp_steps_timed;

static struct {
  uint64_t since_ns;     /* when our code began; 0: the job's code runs */
  uint64_t step_ns;      /* time of our own code in the running step so far */
  uint32_t calls;        /* number of calls of wrappers in the running step so far */
  long long count;       /* number of the running step */
  unsigned waited;       /* number of steps since the last timed step */
  uint64_t steps;        /* number of timed steps so far */
  uint32_t times[TIMES]; /* time of our own code in the last timed steps, ns; a ring */
  uint32_t last_calls;   /* number of calls of wrappers in the last timed step */
} hook_time;

static PyTypeObject *track_type, *listener_type, *steps_type;

bool msp_steps_check(PyObject *object) { return PyObject_TypeCheck(object, steps_type); }

/* Return whether the usual case holds: every boundary that the chosen source of steps reports ends a step, and the
 * calling thread is the one whose boundaries count. */
static bool usual(const steps *self) {
  return self->quick != 0 && self->listener != NULL && self->chosen != NULL &&
         ((const listener *)self->listener)->thread == PyThread_get_thread_ident();
}

bool msp_steps_work(PyObject *object, bool forward) {
  steps *self = (steps *)object;
  if (!usual(self) || (forward && (self->exhausted || self->quick >= NETWORK_CALL))) return false;
  if (!((const track *)self->chosen)->runs) return false;
  self->worked = 1;
  return true;
}

bool msp_steps_waits(const PyObject *object) {
  const steps *self = (const steps *)object;
  return usual(self) && !self->exhausted && ((const track *)self->chosen)->runs;
}

void msp_steps_enter_slowly(void) {
  if (msp_steps_timed == PyThread_get_thread_ident()) hook_time.since_ns = msp_writer_now();
}

void msp_steps_call_slowly(void) {
  if (msp_steps_timed == PyThread_get_thread_ident()) ++hook_time.calls;
  msp_steps_enter_slowly();
}

void msp_steps_leave_slowly(void) {
  if (hook_time.since_ns == 0 || msp_steps_timed != PyThread_get_thread_ident()) return;
  hook_time.step_ns += msp_writer_now() - hook_time.since_ns;
  hook_time.since_ns = 0;
}

/* Note the end of a step. If the hooks measured their own time in this step, keep the time. */
static void end_hook_time(const steps *self) {
  if (msp_steps_timed == 0) return;
  msp_steps_leave();
  msp_steps_timed = 0;
  if (hook_time.count != self->count) return; /* other steps ended in between, in Python code */
  hook_time.times[hook_time.steps++ % TIMES] =
      hook_time.step_ns < UINT32_MAX ? (uint32_t)hook_time.step_ns : UINT32_MAX;
  hook_time.last_calls = hook_time.calls;
}

/* Let the hooks measure their own time in the next step, if MSP_TIMED steps have passed since the last measurement. */
static void begin_hook_time(const steps *self) {
  if (++hook_time.waited < MSP_TIMED || !msp_writer_leaves_out(MSP_CATEGORY_FINE)) return;
  hook_time.waited = 0;
  hook_time.step_ns = hook_time.calls = 0;
  hook_time.count = self->count;
  msp_steps_timed = PyThread_get_thread_ident();
  msp_steps_enter();
}

MSP_HOT unsigned long long msp_steps_lone(PyObject *object) { return ((const steps *)object)->lone; }

MSP_HOT bool msp_steps_of_lone(PyObject *object, const PyObject *optimizer) {
  const steps *self = (const steps *)object;
  return self->quick == OPTIMIZER_CYCLE && self->lone == (uintptr_t)optimizer && usual(self);
}

/* Begin a step at a time in ns. */
static void begin_step(track *chosen, uint64_t at) {
  chosen->start = at;
  chosen->runs = 1;
}

/* Keep the length of a step, ns. */
static void keep_length(steps *self, uint64_t length) {
  self->lengths[self->ended++ % LENGTHS] = length < UINT32_MAX ? (uint32_t)length : UINT32_MAX;
}

MSP_HOT bool msp_steps_end(PyObject *object, uint64_t at) {
  steps *self = (steps *)object;
  end_hook_time(self);
  track *chosen = (track *)self->chosen;
  bool runs = chosen->runs;
  uint64_t begin = chosen->start;
  begin_step(chosen, at);
  self->worked = self->exhausted = 0;
  if (!runs) return true;
  msp_record(MSP_KIND_STEP, self->quick, self->flags, self->name, begin, at, (uint64_t)(self->count - self->revoked));
  long long length = (long long)(at - begin);
  keep_length(self, at - begin);
  if (++self->count < self->next_look && length <= self->long_ns) {
    begin_hook_time(self);
    return true;
  }
  self->last_ns = length;
  self->ended_ns = (long long)at;
  Py_INCREF(chosen);
  PyObject *took = PyObject_CallFunction(self->stepped, "L", self->count);
  if (took != NULL && PyObject_IsTrue(took) > 0) begin_step(chosen, msp_writer_now());
  Py_XDECREF(took);
  Py_DECREF(chosen);
  return took != NULL && PyErr_Occurred() == NULL;
}

/* _keep_length(ns): keep the length of a step. */
static PyObject *keep(PyObject *object, PyObject *length) {
  long long ns = PyLong_AsLongLong(length);
  if (ns == -1 && PyErr_Occurred() != NULL) return NULL;
  keep_length((steps *)object, ns > 0 ? (uint64_t)ns : 0);
  Py_RETURN_NONE;
}

/* Return a list of the numbers of a ring that has `size` places: those from number `first` to before number `end`. */
static PyObject *ring_list(const uint32_t *ring, uint64_t size, uint64_t first, uint64_t end) {
  PyObject *list = PyList_New((Py_ssize_t)(end - first));
  for (uint64_t i = first; list != NULL && i < end; ++i) {
    PyObject *number = PyLong_FromUnsignedLong(ring[i % size]);
    if (number == NULL)
      Py_CLEAR(list);
    else
      PyList_SetItem(list, (Py_ssize_t)(i - first), number);
  }
  return list;
}

/* lengths(count): return the lengths of the last `count` steps, at most LENGTHS. */
static PyObject *lengths(PyObject *object, PyObject *count) {
  const steps *self = (const steps *)object;
  uint64_t most = PyLong_AsUnsignedLongLong(count);
  if (PyErr_Occurred() != NULL) return NULL;
  if (most > LENGTHS) most = LENGTHS;
  return ring_list(self->lengths, LENGTHS, most < self->ended ? self->ended - most : 0, self->ended);
}

/* hook_times(since): return the number of timed steps so far, the times of all but the first `since` of them, at most
 * of the newest TIMES, and the number of calls of wrappers in the last one. */
static PyObject *hook_times(PyObject *module, PyObject *since) {
  (void)module;
  uint64_t first = PyLong_AsUnsignedLongLong(since), end = hook_time.steps;
  if (PyErr_Occurred() != NULL) return NULL;
  if (first > end) first = end;
  if (end - first > TIMES) first = end - TIMES;
  PyObject *times = ring_list(hook_time.times, TIMES, first, end);
  return times == NULL ? NULL : Py_BuildValue("(KNI)", (unsigned long long)end, times, hook_time.last_calls);
}

static PyMethodDef functions[] = {
    {"hook_times", hook_times, METH_O,
     "Return the number of timed steps, the times of hooks in them in ns, without the first, and the number of calls "
     "of\n"
     "hooks in the last one: hook_times(since)."},
    {NULL, NULL, 0, NULL},
};

/* for the types `track` and `listener`, which hold no other objects */
static int no_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  return 0;
}

static int no_clear(PyObject *object) { return object == NULL; }

static PyObject *get_start(PyObject *object, void *unused) {
  (void)unused;
  const track *self = (const track *)object;
  if (!self->runs) Py_RETURN_NONE;
  return PyLong_FromUnsignedLongLong(self->start);
}

static int set_start(PyObject *object, PyObject *value, void *unused) {
  (void)unused;
  bool runs = value != NULL && value != Py_None;
  uint64_t at = runs ? PyLong_AsUnsignedLongLong(value) : 0;
  if (runs && at == UINT64_MAX && PyErr_Occurred() != NULL) return -1;
  ((track *)object)->start = at;
  ((track *)object)->runs = (char)runs;
  return 0;
}

static int steps_traverse(PyObject *object, visitproc visit, void *arg) {
  const steps *self = (const steps *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->chosen);
  Py_VISIT(self->listener);
  Py_VISIT(self->stepped);
  return 0;
}

static int steps_clear(PyObject *object) {
  steps *self = (steps *)object;
  Py_CLEAR(self->chosen);
  Py_CLEAR(self->listener);
  Py_CLEAR(self->stepped);
  return 0;
}

static PyGetSetDef track_properties[] = {
    {"start", get_start, set_start, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* An attribute of `Steps` that C code uses without a check of its type. So the type is checked when it is set. */
typedef struct {
  size_t offset;
  PyTypeObject **type;
} typed;

static const typed typed_chosen = {offsetof(steps, chosen), &track_type};
static const typed typed_listener = {offsetof(steps, listener), &listener_type};

static PyObject **place(PyObject *object, const void *which) {
  return (PyObject **)(void *)((char *)object + ((const typed *)which)->offset);
}

static PyObject *get_typed(PyObject *object, void *which) {
  PyObject *value = *place(object, which);
  if (value == NULL) return PyErr_Format(PyExc_AttributeError, "not set yet");
  Py_INCREF(value);
  return value;
}

static int set_typed(PyObject *object, PyObject *value, void *which) {
  if (value == NULL || !PyObject_TypeCheck(value, *((const typed *)which)->type)) {
    PyErr_SetString(PyExc_TypeError, "a Track or a Listener is needed");
    return -1;
  }
  PyObject **const held = place(object, which), *const before = *held;
  Py_INCREF(value);
  *held = value;
  Py_XDECREF(before);
  return 0;
}

static PyGetSetDef steps_properties[] = {
    {"_chosen", get_typed, set_typed, NULL, (void *)(uintptr_t)&typed_chosen},
    {"_listener", get_typed, set_typed, NULL, (void *)(uintptr_t)&typed_listener},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMemberDef listener_members[] = {
    {"thread", T_ULONG, offsetof(listener, thread), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyMemberDef steps_members[] = {
    {"count", T_LONGLONG, offsetof(steps, count), 0, NULL},
    {"next_look", T_LONGLONG, offsetof(steps, next_look), 0, NULL},
    {"long_ns", T_LONGLONG, offsetof(steps, long_ns), 0, NULL},
    {"last_ns", T_LONGLONG, offsetof(steps, last_ns), 0, NULL},
    {"ended_ns", T_LONGLONG, offsetof(steps, ended_ns), 0, NULL},
    {"_revoked", T_LONGLONG, offsetof(steps, revoked), 0, NULL},
    {"lone", T_ULONGLONG, offsetof(steps, lone), 0, NULL},
    {"_stepped", T_OBJECT, offsetof(steps, stepped), 0, NULL},
    {"_name", T_UINT, offsetof(steps, name), 0, NULL},
    {"_quick", T_UBYTE, offsetof(steps, quick), 0, NULL},
    {"_flags", T_UBYTE, offsetof(steps, flags), 0, NULL},
    {"_worked", T_BOOL, offsetof(steps, worked), 0, NULL},
    {"_exhausted", T_BOOL, offsetof(steps, exhausted), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef steps_methods[] = {
    {"_keep_length", keep, METH_O, "Keep the length of a step in ns: _keep_length(ns)."},
    {"lengths", lengths, METH_O, "Return the lengths of the last steps, at most 512, in ns: lengths(count)."},
    {NULL, NULL, 0, NULL},
};

#define TYPE(kind, base, traverse, clear, ...)                                 \
  static void kind##_dealloc(PyObject *object) { msp_release(object, clear); } \
  static PyType_Slot kind##_slots[] = {                                        \
      SLOT(Py_tp_dealloc, kind##_dealloc),                                     \
      SLOT(Py_tp_traverse, traverse),                                          \
      SLOT(Py_tp_clear, clear),                                                \
      __VA_ARGS__,                                                             \
      {0, NULL},                                                               \
  };                                                                           \
  static PyType_Spec kind##_spec = {                                           \
      .name = "ms_profiler._native." base,                                     \
      .basicsize = sizeof(kind),                                               \
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,  \
      .slots = kind##_slots,                                                   \
  }

TYPE(track, "TrackBase", no_traverse, no_clear, SLOT(Py_tp_getset, track_properties));
TYPE(listener, "ListenerBase", no_traverse, no_clear, SLOT(Py_tp_members, listener_members));
TYPE(steps, "StepsBase", steps_traverse, steps_clear, SLOT(Py_tp_members, steps_members),
     SLOT(Py_tp_getset, steps_properties), SLOT(Py_tp_methods, steps_methods));

/* Make a Python type, and add it to the module under a name. */
static PyTypeObject *add(PyObject *module, PyType_Spec *spec, const char *name) {
  PyObject *type = PyType_FromSpec(spec);
  if (type == NULL) return NULL;
  Py_INCREF(type);
  if (PyModule_AddObject(module, name, type) < 0) {
    Py_DECREF(type);
    Py_CLEAR(type);
  }
  return (PyTypeObject *)type;
}

int msp_steps_add(PyObject *module) {
  track_type = add(module, &track_spec, "TrackBase");
  listener_type = add(module, &listener_spec, "ListenerBase");
  steps_type = add(module, &steps_spec, "StepsBase");
  if (track_type == NULL || listener_type == NULL || steps_type == NULL) return -1;
  return PyModule_AddFunctions(module, functions);
}
