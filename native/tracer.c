#include "tracer.h"

#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "codes.h"
#include "gate.h"
#include "monitor.h"
#include "strands.h"

/* These functions are not part of Python's limited API, but have not changed since Python 3.9. */
typedef int (*profile_function)(PyObject *self, PyFrameObject *frame, int what, PyObject *arg);
extern int _PyEval_SetProfile(PyThreadState *thread, profile_function function, PyObject *self) __attribute__((weak));
extern PyThreadState *PyInterpreterState_ThreadHead(PyInterpreterState *interpreter) __attribute__((weak));
extern PyThreadState *PyThreadState_Next(PyThreadState *thread) __attribute__((weak));
extern PyFrameObject *PyFrame_GetBack(PyFrameObject *frame) __attribute__((weak));
extern int PyFrame_GetLasti(PyFrameObject *frame) __attribute__((weak)); /* since 3.11 */

/* the events that Python reports to a profile function */
enum { CALL = 0, RETURN = 3, C_CALL = 4, C_EXCEPTION = 5, C_RETURN = 6 };

static struct {
  bool on;      /* tracing was requested */
  bool c_calls; /* trace functions in C, too */
  bool asked;   /* a pending call of msp_tracer_settle is requested */
  uint64_t least_ns;
  uint32_t depth_most;
  PyObject *switched;   /* Python function that switches sys.monitoring on or off; NULL: profile functions are used */
  PyObject *hook;       /* the object that Python code sees as the profile function */
  uint64_t last_thread; /* all threads whose thread state has an id up to this number have the profile function */
  PyInterpreterState *interpreter;
} tracer;

static PyObject *code_of(PyFrameObject *frame) { return (PyObject *)PyFrame_GetCode(frame); }

static const msp_callee *callee_of(const msp_code *code) {
  return code == NULL || code->left_out ? NULL : &code->callee;
}

/* Add the calls that already run on this thread to the list of open calls, from the outermost frame to `frame`. If
 * `entered` is the code of `frame`, leave `frame` out: the caller of this function adds its call next. */
static void open_running(msp_calls *calls, PyFrameObject *frame, const PyObject *entered, uint64_t since) {
  const msp_callee *few[64], **found = few;
  size_t count = 0, room = 64;
  bool innermost = true;
  Py_XINCREF((PyObject *)frame);
  while (frame != NULL) {
    PyObject *code = code_of(frame);
    const msp_callee *callee = innermost && code == entered ? NULL : callee_of(msp_code_of(code));
    Py_DECREF(code);
    innermost = false;
    if (callee != NULL && count == room) {
      const msp_callee **more = malloc(2 * room * sizeof *more);
      if (more == NULL) break;
      memcpy(more, found, room * sizeof *more);
      if (found != few) free(found);
      found = more;
      room *= 2;
    }
    if (callee != NULL) found[count++] = callee;
    PyFrameObject *caller = PyFrame_GetBack(frame);
    Py_DECREF((PyObject *)frame);
    frame = caller;
  }
  Py_XDECREF((PyObject *)frame);
  while (count > 0) msp_calls_push(calls, found[--count], since, MSP_FLAG_RESUMED);
  if (found != few) free(found);
}

/* Replace the list of open calls by the calls on the running stack. This is needed when tracing has begun, and when the
 * thread has switched to another stack (strand, for example a greenlet). */
void msp_tracer_turn(msp_calls *calls, PyFrameObject *frame, const PyObject *entered, const void *strand) {
  bool began = calls->span != msp_calls_tracing.span;
  uint64_t now = msp_tsc_now(&calls->writer->tsc);
  if (!began) msp_calls_cut(calls, now);
  msp_calls_forget(calls);
  calls->span = msp_calls_tracing.span;
  calls->strand = strand;
  open_running(calls, frame != NULL ? frame : PyEval_GetFrame(), entered, began ? msp_calls_tracing.since_ns : now);
}

static int settle_later(void *unused) {
  (void)unused;
  tracer.asked = false;
  msp_tracer_settle();
  return 0;
}

msp_calls *msp_tracer_refused(void) {
  bool stays = msp_gate_load(&msp_gate_page->refuse) != 0 && msp_gate_load(&msp_gate_page->alive) != 0;
  if (stays && msp_calls_tracing.span != 0 && !tracer.asked) {
    tracer.asked = Py_AddPendingCall(settle_later, NULL) == 0;
  }
  return NULL;
}

const msp_code *msp_tracer_code(PyObject *code) {
  const msp_code *known = msp_code_of(code);
  if (known == NULL) {
    msp_writer *writer = msp_writer_get();
    if (writer != NULL) msp_writer_drop(writer);
  }
  return known;
}

/* -- profile functions */

/* Return the offset of the instruction that a frame runs; -1 if the frame has not begun to run. */
static long place_in(PyFrameObject *frame) {
  if (PyFrame_GetLasti != NULL) return PyFrame_GetLasti(frame);
  PyObject *place = PyObject_GetAttrString((PyObject *)frame, "f_lasti");
  long at = place == NULL ? -1 : PyLong_AsLong(place);
  Py_XDECREF(place);
  PyErr_Clear();
  return at;
}

/* The opcodes at which a generator or coroutine begins, continues and pauses. Only the opcode tells a profile function
 * which of these has happened. In Python 3.10, a frame that pauses in YIELD_FROM is at the instruction before
 * YIELD_FROM. */
enum { YIELD_FROM = 72, YIELD_VALUE = 86, RESUME = 151 };

static uint8_t pause_of(PyFrameObject *frame, const msp_code *code, bool begins) {
  if (code->pauses == NULL) return 0;
  const unsigned char *does = (const unsigned char *)PyBytes_AsString(code->pauses);
  long at = place_in(frame), last = (long)PyBytes_Size(code->pauses) - 2;
  if (at < 0 || at > last) return 0;
  if (begins) return PyFrame_GetLasti == NULL || does[at] != RESUME || does[at + 1] != 0 ? MSP_FLAG_RESUMED : 0;
  bool from = PyFrame_GetLasti == NULL && at < last && does[at + 2] == YIELD_FROM;
  return does[at] == YIELD_VALUE || from ? MSP_FLAG_YIELDED : 0;
}

static void profile_call(PyFrameObject *frame) {
  PyObject *object = code_of(frame);
  const msp_code *code = msp_tracer_code(object);
  if (code != NULL && !code->left_out) {
    msp_tracer_enter(frame, object, code->pauses == NULL ? 0 : pause_of(frame, code, true), code);
  }
  Py_DECREF(object);
}

static void profile_return(PyFrameObject *frame, bool raised) {
  msp_calls *calls = msp_tracer_calls(frame, NULL);
  if (calls == NULL) return;
  PyObject *object = code_of(frame);
  const msp_code *code = msp_code_of(object);
  if (code != NULL && !code->left_out) {
    uint8_t flags = raised ? MSP_FLAG_RAISED : code->pauses == NULL ? 0 : pause_of(frame, code, false);
    msp_calls_leave(calls, &code->callee, flags);
  }
  Py_DECREF(object);
}

/* Return whether the user has excluded the function that calls. Most often its call is the innermost open call, so it
 * is not excluded. */
static bool caller_left_out(const msp_calls *calls, PyFrameObject *frame) {
  PyObject *object = code_of(frame);
  bool last = calls->depth > 0 && calls->open[calls->depth - 1].callee->key == object;
  const msp_code *caller = last ? NULL : msp_code_of(object);
  Py_DECREF(object);
  return caller != NULL && caller->left_out;
}

static void profile_c(PyFrameObject *frame, int what, PyObject *callable) {
  const msp_code *called = msp_code_of_c(callable);
  if (called == NULL || called->left_out) return;
  msp_calls *calls = msp_tracer_calls(frame, NULL);
  if (calls == NULL) return;
  if (what == C_CALL) {
    if (!caller_left_out(calls, frame)) msp_calls_enter(calls, &called->callee, 0);
    return;
  }
  bool last = calls->depth > 0 && calls->open[calls->depth - 1].callee == &called->callee;
  if (last || !caller_left_out(calls, frame)) {
    msp_calls_leave(calls, &called->callee, what == C_EXCEPTION ? MSP_FLAG_RAISED : 0);
  }
}

static int profile(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) {
  (void)self;
  if (!tracer.on || msp_calls_tracing.span == 0) { /* remove this function: steps without tracing have no overhead */
    _PyEval_SetProfile(PyThreadState_Get(), NULL, NULL);
    return 0;
  }
  if (what == CALL) {
    profile_call(frame);
  } else if (what == RETURN) {
    profile_return(frame, arg == NULL);
  } else if (tracer.c_calls && what >= C_CALL && what <= C_RETURN && arg != NULL) {
    profile_c(frame, what, arg);
  }
  return 0;
}

/* The Python object that stands for our native profile function. A script gets this object from sys.getprofile, and may
 * set it again later. New threads call it, too. In both cases, the object installs the native function in its own
 * place. */
static PyObject *py_hook(PyObject *self, PyObject *args) {
  (void)self;
  (void)args;
  if (_PyEval_SetProfile(PyThreadState_Get(), tracer.on ? profile : NULL, tracer.on ? tracer.hook : NULL) != 0) {
    PyErr_Clear();
  }
  Py_RETURN_NONE;
}

/* Set our profile function on the threads that are new since the last call, or on all threads. */
static void profile_threads(bool all) {
  PyThreadState *own = PyThreadState_Get();
  uint64_t last = all ? 0 : tracer.last_thread;
  for (PyThreadState *thread = PyInterpreterState_ThreadHead(tracer.interpreter); thread != NULL;
       thread = PyThreadState_Next(thread)) {
    uint64_t number = PyThreadState_GetID(thread);
    if (number > tracer.last_thread) tracer.last_thread = number;
    if (number <= last && thread != own) continue;
    if (_PyEval_SetProfile(thread, profile, tracer.hook) != 0) PyErr_Clear();
  }
}

/* -- on and off */

static bool admitted(void) {
  const msp_gate *gate = msp_gate_page;
  return tracer.on && msp_gate_load(&gate->session) != 0 && msp_gate_load(&gate->refuse) == 0;
}

/* Make the interpreter start or stop reporting calls to the tracer. */
static void switch_reports(bool on) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (tracer.switched != NULL) {
    PyObject *done = PyObject_CallFunctionObjArgs(tracer.switched, on ? Py_True : Py_False, NULL);
    Py_XDECREF(done);
    PyErr_Clear();
  } else if (on) {
    profile_threads(true);
  }
  PyErr_Restore(type, value, trace);
}

/* Return whether the profile function of this thread belongs to another tool. */
static bool is_taken(void) {
  PyObject *ask = PySys_GetObject("getprofile");
  PyObject *there = ask == NULL ? NULL : PyObject_CallObject(ask, NULL);
  bool taken = there != NULL && there != Py_None && there != tracer.hook;
  Py_XDECREF(there);
  PyErr_Clear();
  return taken;
}

void msp_tracer_settle(void) {
  bool on = admitted();
  if (on == (msp_calls_tracing.span != 0) || tracer.interpreter != PyInterpreterState_Get()) return;
  if (on && tracer.switched == NULL && is_taken()) return;
  if (on) {
    /* With sys.monitoring, call `switched` before tracing begins, so that this call is not traced. Set profile
     * functions after tracing has begun, because a profile function removes itself while nothing is traced. */
    if (tracer.switched != NULL) switch_reports(true);
    msp_calls_begin(tracer.least_ns, tracer.depth_most);
    if (tracer.switched == NULL) switch_reports(true);
  } else {
    msp_calls_end();
    switch_reports(false);
  }
}

static PyObject *py_trace(PyObject *self, PyObject *args) {
  (void)self;
  PyObject *only, *without, *switched, *disable;
  double least_us;
  unsigned long depth;
  int c_calls;
  if (!PyArg_ParseTuple(args, "dkpOOOO", &least_us, &depth, &c_calls, &only, &without, &switched, &disable))
    return NULL;
  bool profiles = switched == Py_None;
  if (profiles && (_PyEval_SetProfile == NULL || PyInterpreterState_ThreadHead == NULL || PyThreadState_Next == NULL)) {
    Py_RETURN_FALSE;
  }
  if (PyFrame_GetBack == NULL || tracer.on) Py_RETURN_FALSE;
  if (msp_codes_choose(only, without) < 0) return NULL;
  msp_codes_forget();
  Py_XDECREF(tracer.switched);
  Py_XDECREF(msp_monitor_disable);
  Py_INCREF(switched);
  Py_INCREF(disable);
  tracer.switched = profiles ? NULL : switched;
  msp_monitor_disable = profiles ? NULL : disable;
  tracer.least_ns = (uint64_t)(least_us * 1000);
  tracer.depth_most = depth == 0 || depth > UINT32_MAX ? UINT32_MAX : (uint32_t)depth;
  tracer.c_calls = c_calls;
  tracer.interpreter = PyInterpreterState_Get();
  tracer.on = true;
  msp_strands_find();
  msp_tracer_settle();
  Py_RETURN_TRUE;
}

static PyObject *py_trace_no_calls(PyObject *self, PyObject *unused) {
  (void)self;
  (void)unused;
  tracer.on = false; /* profile functions remove themselves */
  msp_tracer_settle();
  Py_RETURN_NONE;
}

static PyObject *py_calls_seen(PyObject *self, PyObject *unused) {
  (void)self;
  (void)unused;
  msp_strands_find(); /* the job may have imported greenlet since */
  return PyLong_FromUnsignedLongLong(msp_calls_tracing.seen);
}

static PyObject *py_trace_new_threads(PyObject *self, PyObject *all) {
  (void)self;
  int every = PyObject_IsTrue(all);
  if (every < 0) return NULL;
  if (msp_calls_tracing.span == 0 || tracer.switched != NULL) Py_RETURN_NONE;
  if (every) msp_calls_end(); /* begin again: the threads have begun and ended calls that were not reported */
  profile_threads(every);
  if (every) msp_calls_begin(tracer.least_ns, tracer.depth_most);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"trace_calls", py_trace, METH_VARARGS,
     "Begin to trace: trace_calls(least_us, depth, c_calls, only, without, switch or None, DISABLE) -> bool, true when "
     "it has begun."},
    {"trace_no_calls", py_trace_no_calls, METH_NOARGS, "Stop tracing."},
    {"trace_new_threads", py_trace_new_threads, METH_O, "Trace the threads that have been started since; all if true."},
    {"calls_seen", py_calls_seen, METH_NOARGS, "Return how many calls were reported so far, including those left out."},
    {"profile_hook", py_hook, METH_VARARGS, "A profile function that replaces itself by the native one."},
    {NULL, NULL, 0, NULL}};

int msp_tracer_add(PyObject *module) {
  if (msp_codes_init() < 0 || PyModule_AddFunctions(module, functions) < 0 || msp_monitor_add(module) < 0) return -1;
  tracer.hook = PyObject_GetAttrString(module, "profile_hook");
  return tracer.hook == NULL ? -1 : 0;
}
