#include "steps.h"

#include <stddef.h>
#include <structmember.h>

#include "heap_type.h"
#include "writer.h"

enum { OPTIMIZER_CYCLE = 3, NETWORK_CALL = 7 }; /* values of StepSource in store/format.py */
enum { TIMES = 1024 };                          /* number of timed steps whose times are kept */

typedef struct {
  PyObject ob_base;
  PyObject *start;
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
  unsigned long long lone; /* address of the only optimizer; 0: there are several, or none is known */
  PyObject *chosen;        /* a `Track`: the boundaries that the chosen source of steps reports */
  PyObject *listener;
  PyObject *stepped;
  unsigned int name;
  unsigned char quick; /* number of the chosen source if each of its boundaries ends a step; otherwise 0 */
  unsigned char flags;
  char worked, exhausted;
} steps;

unsigned long msp_steps_timed;

static struct {
  uint64_t since_ns;     /* when our code began; 0: the job's code runs */
  uint64_t step_ns;      /* time of our own code in the running step so far */
  long long count;       /* number of the running step */
  unsigned waited;       /* number of steps since the last timed step */
  uint64_t steps;        /* number of timed steps so far */
  uint32_t times[TIMES]; /* time of our own code in the last timed steps, ns; a ring */
} hook_time;

static PyTypeObject *track_type, *listener_type, *steps_type;

bool msp_steps_check(PyObject *object) { return PyObject_TypeCheck(object, steps_type); }

/* Return whether the usual case holds: every boundary that the chosen source of steps reports ends a step, and the
 * calling thread is the one whose boundaries count. */
static bool usual(const steps *self) {
  return self->quick != 0 && self->listener != NULL && self->chosen != NULL &&
         PyObject_TypeCheck(self->listener, listener_type) && PyObject_TypeCheck(self->chosen, track_type) &&
         ((const listener *)self->listener)->thread == PyThread_get_thread_ident();
}

bool msp_steps_work(PyObject *object, bool forward) {
  steps *self = (steps *)object;
  if (!usual(self) || (forward && (self->exhausted || self->quick >= NETWORK_CALL))) return false;
  const PyObject *start = ((const track *)self->chosen)->start;
  if (start == NULL || start == Py_None) return false;
  self->worked = 1;
  return true;
}

void msp_steps_enter_slowly(void) {
  if (msp_steps_timed == PyThread_get_thread_ident()) hook_time.since_ns = msp_writer_now();
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
}

/* Let the hooks measure their own time in the next step, if MSP_TIMED steps have passed since the last measurement. */
static void begin_hook_time(const steps *self) {
  if (++hook_time.waited < MSP_TIMED || !msp_writer_leaves_out(MSP_CATEGORY_FINE)) return;
  hook_time.waited = 0;
  hook_time.step_ns = 0;
  hook_time.count = self->count;
  msp_steps_timed = PyThread_get_thread_ident();
  msp_steps_enter();
}

bool msp_steps_of_lone(PyObject *object, const PyObject *optimizer) {
  const steps *self = (const steps *)object;
  return self->quick == OPTIMIZER_CYCLE && self->lone == (uintptr_t)optimizer && usual(self);
}

bool msp_steps_end(PyObject *object, uint64_t at) {
  steps *self = (steps *)object;
  end_hook_time(self);
  track *chosen = (track *)self->chosen;
  PyObject *start = chosen->start, *next = PyLong_FromUnsignedLongLong(at);
  if (next == NULL) return false;
  chosen->start = next;
  self->worked = self->exhausted = 0;
  bool runs = start != NULL && start != Py_None;
  uint64_t begin = runs ? PyLong_AsUnsignedLongLongMask(start) : 0;
  Py_XDECREF(start);
  if (!runs) return PyErr_Occurred() == NULL;
  msp_record(MSP_KIND_STEP, self->quick, self->flags, self->name, begin, at, (uint64_t)(self->count - self->revoked));
  long long length = (long long)(at - begin);
  if (++self->count < self->next_look && length <= self->long_ns) {
    begin_hook_time(self);
    return true;
  }
  self->last_ns = length;
  self->ended_ns = (long long)at;
  Py_INCREF(chosen);
  PyObject *took = PyObject_CallFunction(self->stepped, "L", self->count);
  bool later = took != NULL && PyObject_IsTrue(took) > 0;
  Py_XDECREF(took);
  if (later && (next = PyLong_FromUnsignedLongLong(msp_writer_now())) != NULL) {
    start = chosen->start;
    chosen->start = next;
    Py_XDECREF(start);
  }
  Py_DECREF(chosen);
  return took != NULL && PyErr_Occurred() == NULL;
}

/* hook_times(since): return the number of timed steps so far, and the times of all but the first `since` of them, at
 * most of the newest TIMES. */
static PyObject *hook_times(PyObject *module, PyObject *since) {
  (void)module;
  uint64_t first = PyLong_AsUnsignedLongLong(since), end = hook_time.steps;
  if (PyErr_Occurred() != NULL) return NULL;
  if (first > end) first = end;
  if (end - first > TIMES) first = end - TIMES;
  PyObject *times = PyList_New((Py_ssize_t)(end - first));
  for (uint64_t i = first; times != NULL && i < end; ++i) {
    PyObject *time = PyLong_FromUnsignedLong(hook_time.times[i % TIMES]);
    if (time == NULL)
      Py_CLEAR(times);
    else
      PyList_SetItem(times, (Py_ssize_t)(i - first), time);
  }
  return times == NULL ? NULL : Py_BuildValue("(KN)", (unsigned long long)end, times);
}

static PyMethodDef functions[] = {
    {"hook_times", hook_times, METH_O,
     "Return the number of timed steps, and the times of hooks in them in ns, without the first: hook_times(since)."},
    {NULL, NULL, 0, NULL},
};

static int track_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(((track *)object)->start);
  return 0;
}

static int track_clear(PyObject *object) {
  Py_CLEAR(((track *)object)->start);
  return 0;
}

static int listener_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  return 0;
}

static int listener_clear(PyObject *object) { return object == NULL; }

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

static PyMemberDef track_members[] = {
    {"start", T_OBJECT, offsetof(track, start), 0, NULL},
    {NULL, 0, 0, 0, NULL},
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
    {"_chosen", T_OBJECT, offsetof(steps, chosen), 0, NULL},
    {"_listener", T_OBJECT, offsetof(steps, listener), 0, NULL},
    {"_stepped", T_OBJECT, offsetof(steps, stepped), 0, NULL},
    {"_name", T_UINT, offsetof(steps, name), 0, NULL},
    {"_quick", T_UBYTE, offsetof(steps, quick), 0, NULL},
    {"_flags", T_UBYTE, offsetof(steps, flags), 0, NULL},
    {"_worked", T_BOOL, offsetof(steps, worked), 0, NULL},
    {"_exhausted", T_BOOL, offsetof(steps, exhausted), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

#define TYPE(kind, base)                                                              \
  static void kind##_dealloc(PyObject *object) { msp_release(object, kind##_clear); } \
  static PyType_Slot kind##_slots[] = {                                               \
      SLOT(Py_tp_dealloc, kind##_dealloc),                                            \
      SLOT(Py_tp_traverse, kind##_traverse),                                          \
      SLOT(Py_tp_clear, kind##_clear),                                                \
      SLOT(Py_tp_members, kind##_members),                                            \
      {0, NULL},                                                                      \
  };                                                                                  \
  static PyType_Spec kind##_spec = {                                                  \
      .name = "ms_profiler._native." base,                                            \
      .basicsize = sizeof(kind),                                                      \
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,         \
      .slots = kind##_slots,                                                          \
  }

TYPE(track, "TrackBase");
TYPE(listener, "ListenerBase");
TYPE(steps, "StepsBase");

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
