#include "optimizers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>

#include "heap_type.h"
#include "hot.h"
#include "shield.h"
#include "steps.h"
#include "vectorcall.h"
#include "wrapper.h"
#include "writer.h"

/* A hook for the begin or the end of an optimizer's step. */
typedef struct {
  PyObject ob_base;
  vectorcall call;
  PyObject *python; /* the hook in Python, with the same arguments; for all but the usual case */
  PyObject *steps;  /* the `Steps` of the session */
  PyObject *labels; /* a dictionary: id of a class of optimizers -> (name of the span, argument of the span) */
  PyObject *failed; /* failed(exception): handles an exception of `Steps`; raises it again if it is the job's */
  PyObject *forked; /* a list: the session, in a fork child that does not record yet; otherwise empty */
  uint8_t category; /* of the span */
  char begins;      /* true: the hook for the begin of a step */
  unsigned long long counted; /* address of the optimizer whose steps are noted at their ends only; 0: there is none */
} hook;

bool msp_resting;

/* The optimizer's step that runs on this thread, if `begins` has noted its begin. */
static __thread struct {
  const void *frame; /* the frame of PyTorch's that runs the step; only compared; NULL: there is no such step */
  const PyObject *optimizer;
  uint32_t token;
  uint32_t refused;         /* reasons (bits) why Python code handles all steps of this thread */
  unsigned long long ended; /* number of steps that `count` has counted */
  /* the optimizer whose step began without a note; only compared. If the step fails, this stays until the next step. */
  const PyObject *unnoted;
} running;

/* Note that an optimizer's step begins in a frame. Returns whether this is the usual case. */
static bool begins(const hook *self, PyObject *optimizer, const void *frame) {
  PyObject *steps = self->steps;
  if (running.refused != 0 || running.frame != NULL || !msp_steps_of_lone(steps, optimizer)) return false;
  PyObject *label = msp_resting ? NULL : msp_by_id(self->labels, Py_TYPE(optimizer));
  bool named = label != NULL && PyTuple_Check(label) && PyTuple_Size(label) == 2;
  bool usual = (named || msp_resting) && msp_steps_work(steps, false);
  if (usual) {
    running.frame = frame;
    running.optimizer = optimizer;
    running.token = 0;
    running.unnoted = NULL;
  }
  if (usual && named) {
    uint64_t name = PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(label, 0));
    uint64_t arg = PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(label, 1));
    running.token = msp_begin((uint32_t)name, self->category, arg);
  }
  PyErr_Clear();
  return usual;
}

/* Count a step that has ended on this thread. Returns 1, or -1 with an exception set. */
MSP_HOT static int count(PyObject *steps) {
  ++running.ended;
  return msp_steps_end(steps, msp_writer_now()) ? 1 : -1;
}

/* Note that an optimizer's step ends. Returns 1 in the usual case; 0 in any other case; -1 with an exception set. */
static int ends(PyObject *steps, PyObject *optimizer, const void *frame) {
  if (running.frame == NULL || running.optimizer != optimizer || running.frame != frame ||
      !msp_steps_of_lone(steps, optimizer)) {
    return 0;
  }
  if (running.token != 0) msp_end(running.token, 0);
  running.frame = NULL;
  return count(steps);
}

/* Note the begin or the end of an optimizer's step. Returns 1 in the usual case; 0 in any other case; -1 with an
 * exception set. */
static int note(const hook *self, PyObject *optimizer, const void *frame) {
  msp_steps_enter();
  int done = self->begins ? begins(self, optimizer, frame) : ends(self->steps, optimizer, frame);
  msp_steps_leave();
  return done;
}

/* Leave the begin of a step of the optimizer `counted` without a note, if no step runs on this thread, and if the end
 * of the last step was the begin of this one. Returns false if the begin has to be noted. */
static bool leave_out_begin(const hook *self, const PyObject *optimizer) {
  if (msp_steps_lone(self->steps) != self->counted || running.refused != 0 || running.frame != NULL) return false;
  running.unnoted = optimizer;
  return true;
}

/* Note the end of a step whose begin was not noted. Returns the same as `note`. */
static int note_end(PyObject *steps, const PyObject *optimizer) {
  msp_steps_enter();
  bool usual = running.unnoted == optimizer && running.refused == 0 && running.frame == NULL &&
               msp_steps_of_lone(steps, optimizer);
  if (usual) running.unnoted = NULL;
  int done = usual ? count(steps) : 0;
  msp_steps_leave();
  return done;
}

/* take(optimizer, frame): for the hook in Python; note the begin or the end of a step in a frame of PyTorch's. */
static PyObject *take(PyObject *object, PyObject *const *args, Py_ssize_t count) {
  if (count != 2) return PyErr_Format(PyExc_TypeError, "take() takes two arguments");
  int done = note((const hook *)object, args[0], args[1]);
  return done < 0 ? NULL : PyBool_FromLong(done);
}

MSP_HOT static PyObject *hook_call(PyObject *object, PyObject *const *args, size_t flagged, PyObject *names) {
  const hook *self = (hook *)object;
  int done = 0;
  bool counted = msp_resting && COUNT(flagged) > 0 && self->counted == (uintptr_t)args[0];
  if (counted && self->begins && leave_out_begin(self, args[0])) Py_RETURN_NONE;
  if (COUNT(flagged) > 0 && self->forked != NULL && Py_SIZE(self->forked) == 0) {
    if (counted && !self->begins) done = note_end(self->steps, args[0]);
    if (done == 0) done = note(self, args[0], PyEval_GetFrame());
  }
  if (done < 0 && !msp_shield_handled(self->failed)) return NULL;
  if (done == 0) return call(self->python, args, flagged, names);
  Py_RETURN_NONE;
}

static int hook_init(PyObject *object, PyObject *args, PyObject *keywords) {
  static char *names[] = {"python", "begins", "steps", "labels", "category", "failed", "forked", NULL};
  hook *self = (hook *)object;
  PyObject *python, *steps, *labels, *failed, *forked;
  unsigned char category;
  int begin;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OpOO!bOO!", names, &python, &begin, &steps, &PyDict_Type, &labels,
                                   &category, &failed, &PyList_Type, &forked)) {
    return -1;
  }
  if (self->python != NULL || !msp_steps_check(steps)) {
    PyErr_SetString(PyExc_TypeError, "a hook of an optimizer needs a Steps, and is made once");
    return -1;
  }
  PyObject **const places[] = {&self->python, &self->steps, &self->labels, &self->failed, &self->forked};
  PyObject *const values[] = {python, steps, labels, failed, forked};
  for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
    Py_INCREF(values[i]);
    *places[i] = values[i];
  }
  self->category = category;
  self->begins = (char)begin;
  self->call = hook_call;
  return 0;
}

static int hook_traverse(PyObject *object, visitproc visit, void *arg) {
  const hook *self = (const hook *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->python);
  Py_VISIT(self->steps);
  Py_VISIT(self->labels);
  Py_VISIT(self->failed);
  Py_VISIT(self->forked);
  return 0;
}

static int hook_clear(PyObject *object) {
  hook *self = (hook *)object;
  Py_CLEAR(self->python);
  Py_CLEAR(self->steps);
  Py_CLEAR(self->labels);
  Py_CLEAR(self->failed);
  Py_CLEAR(self->forked);
  return 0;
}

static void hook_dealloc(PyObject *object) { msp_release(object, hook_clear); }

static PyObject *take_optimizer_step(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  const void *frame = running.frame;
  const PyObject *unnoted = running.unnoted;
  running.unnoted = NULL;
  if (frame == NULL && unnoted == NULL) Py_RETURN_NONE;
  if (frame == NULL) return Py_BuildValue("(iiN)", 0, 0, PyLong_FromVoidPtr((void *)(uintptr_t)unnoted));
  running.frame = NULL;
  return Py_BuildValue("(NIN)", PyLong_FromVoidPtr((void *)(uintptr_t)frame), running.token,
                       PyLong_FromVoidPtr((void *)(uintptr_t)running.optimizer));
}

static PyObject *leave_optimizers(PyObject *module, PyObject *args) {
  (void)module;
  unsigned int reason;
  int on;
  if (!PyArg_ParseTuple(args, "Ip", &reason, &on)) return NULL;
  running.refused = on ? running.refused | reason : running.refused & ~reason;
  Py_RETURN_NONE;
}

static PyObject *optimizer_steps(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  return PyLong_FromUnsignedLongLong(running.ended);
}

static PyObject *rest(PyObject *module, PyObject *on) {
  (void)module;
  int truth = PyObject_IsTrue(on);
  if (truth < 0) return NULL;
  msp_resting = truth != 0;
  msp_wrappers_rest();
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"rest", rest, METH_O,
     "Let hooks that may rest record nothing but steps from now on (true), or record all again (false)."},
    {"take_optimizer_step", take_optimizer_step, METH_NOARGS,
     "Leave the running step of an optimizer to Python -> (id of its frame, token, id of the optimizer), or None. If "
     "the "
     "begin of the step was not noted, frame and token are 0, and the step may have failed."},
    {"leave_optimizers", leave_optimizers, METH_VARARGS,
     "While true for any reason, leave all steps of this thread's optimizers to Python: leave_optimizers(reason, on)."},
    {"optimizer_steps", optimizer_steps, METH_NOARGS,
     "Return the number of steps of optimizers on this thread that ended without Python."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef methods[] = {
    {"take", (PyCFunction)(void (*)(void))take, METH_FASTCALL,
     "Note the begin or the end of a step: take(optimizer, frame) -> whether this was the usual case."},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(hook, call), READONLY, NULL},
    {"counted", T_ULONGLONG, offsetof(hook, counted), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_init, hook_init),         SLOT(Py_tp_dealloc, hook_dealloc),
    SLOT(Py_tp_traverse, hook_traverse), SLOT(Py_tp_clear, hook_clear),
    SLOT(Py_tp_call, PyVectorcall_Call), SLOT(Py_tp_methods, methods),
    SLOT(Py_tp_members, members),        {0, NULL},
};
static PyType_Spec spec = {
    .name = "ms_profiler._native.OptimizerHook",
    .basicsize = sizeof(hook),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = slots,
};

int msp_optimizers_add(PyObject *module) {
  PyObject *type = PyType_FromSpec(&spec);
  if (type == NULL || PyModule_AddObject(module, "OptimizerHook", type) < 0) {
    Py_XDECREF(type);
    return -1;
  }
  return PyModule_AddFunctions(module, functions);
}
