#include "sampler.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "codes.h"
#include "gate.h"
#include "pending.h"
#include "recorder.h"
#include "stacks.h"
#include "thread.h"

/* These two functions are not part of Python's limited API. The first has not changed since Python 3.9, the second not
 * since 3.11. */
extern PyFrameObject *PyFrame_GetBack(PyFrameObject *frame) __attribute__((weak));
extern int PyFrame_GetLasti(PyFrameObject *frame) __attribute__((weak));

#define STACK_BYTES (256 << 10)
#define DEPTH_MOST 192 /* largest number of frames of a sample, from the innermost one; each takes 60 ns */
#define LATE_MOST 0xFFFFFFFFu
#define JITTER 0.5 /* random part of the period, so that samples are not in step with a loop of the job */
#define PATIENCE_NS 10000000000u
/* When the sampler waits WAITED_NS for the GIL, a thread of the job had to release the GIL, which costs 0.1 ms or more.
 * Then the sampler leaves out the next LEFT_OUT samples for which it would need the GIL. */
#define WAITED_NS 1000000u
#define LEFT_OUT 3

static struct {
  pthread_mutex_t lock;
  pthread_cond_t wake, reply;
  bool has_wake;
  pthread_t thread;
  bool runs, stop, ended;
  uint64_t period_ns;
  uint64_t due_ns;  /* time of the first sample that is due and not taken; 0: none is due */
  uint64_t last_ns; /* time of the last sample that is due */
  uint32_t count;   /* number of samples that are due */
  bool asked;       /* a pending call was requested, and has not run yet */
  int pid;
  int leaves_out, left_out; /* number of samples to leave out, and number of those left out so far */
} sampler = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Objects of Python that samples need. This code uses them only with the GIL. */
static struct {
  PyObject *look;    /* sys._current_frames */
  PyObject *threads; /* threading._active */
  PyObject *native_id, *name;
} python;

static uint32_t place_of(PyFrameObject *frame) {
  return (uint32_t)(PyFrame_GetLasti != NULL ? PyFrame_GetLasti(frame) : PyFrame_GetLineNumber(frame));
}

/* Return the node that stands for a thread's stack in the tree of stacks; 0 if there is no room for it. `frame` is the
 * innermost frame of the stack. */
static uint32_t node_of(uint32_t thread, PyFrameObject *frame) {
  PyFrameObject *frames[DEPTH_MOST];
  int depth = 0;
  Py_INCREF((PyObject *)frame);
  while (frame != NULL && depth < DEPTH_MOST) {
    frames[depth++] = frame;
    frame = PyFrame_GetBack(frame);
  }
  Py_XDECREF((PyObject *)frame);
  uint32_t node = thread;
  while (depth > 0) {
    frame = frames[--depth];
    PyObject *code = node == 0 ? NULL : (PyObject *)PyFrame_GetCode(frame);
    const msp_code *function = code == NULL ? NULL : msp_code_of(code);
    uint32_t caller = node;
    node = 0;
    if (function != NULL) {
      uint32_t place = place_of(frame);
      node = msp_stacks_at(caller, function->number, place);
      if (node == 0) {
        int line = PyFrame_GetLineNumber(frame); /* 0 or less in the first instructions of a function */
        node = msp_stacks_add(caller, function->number, place, line > 0 ? (uint32_t)line : function->source.line,
                              &function->source);
      }
    }
    Py_XDECREF(code);
    Py_DECREF((PyObject *)frame);
  }
  return node;
}

static uint32_t thread_of(PyObject *ident, uint64_t number) {
  PyObject *thread = PyDict_GetItemWithError(python.threads, ident);
  if (thread == NULL) {
    PyErr_Clear();
    return msp_stacks_thread(number, 0, 0);
  }
  Py_INCREF(thread);
  uint32_t node = msp_stacks_thread(number, msp_number_attribute(thread, python.native_id),
                                    msp_intern_attribute(thread, python.name));
  Py_DECREF(thread);
  return node;
}

/* Record the stack of a thread as its stack in all `times` samples that were due from `due` to `now`. `itself`: a
 * thread of the job takes the samples, not the sampler. A single sample usually gets the time `now`. But when a thread
 * of the job samples itself, its stack has not changed since `due`, so the sample gets the time `due`. */
static void sample(PyObject *ident, PyFrameObject *frame, uint64_t due, uint64_t now, uint32_t times, bool itself) {
  unsigned long number = PyLong_AsUnsignedLongMask(ident);
  uint64_t late = now - due;
  msp_sample seen = {.thread = thread_of(ident, number), .count = times};
  seen.late_us = late / 1000 < LATE_MOST ? (uint32_t)(late / 1000) : LATE_MOST;
  seen.node = seen.thread == 0 ? 0 : node_of(seen.thread, frame);
  seen.first_ns = times > 1 || (itself && number == (unsigned long)pthread_self()) ? due : now;
  seen.last_ns = times > 1 ? now : seen.first_ns;
  if (seen.node == 0 || seen.node == seen.thread) {
    msp_stacks_lost();
  } else {
    msp_stacks_put(&seen);
  }
}

/* Take the due samples of all threads. Called with the GIL. `itself`: the caller is a thread of the job, between two of
 * its bytecodes, and not the sampler. */
static void take_samples(bool itself) {
  uint64_t due = __atomic_exchange_n(&sampler.due_ns, 0, __ATOMIC_ACQ_REL);
  if (due == 0 || python.look == NULL) return;
  /* Switch the garbage collector off. sys._current_frames holds the lock of Python's list of threads. If the collector
   * ran in this function, a finalizer could release the GIL to a thread that waits for this lock. This would be a
   * deadlock (fixed in Python 3.11.6 and 3.12.1). */
  int collects = PyGC_Disable();
  uint64_t now = msp_now(), last = __atomic_load_n(&sampler.last_ns, __ATOMIC_RELAXED);
  if (now < last) now = last;
  /* add the samples that became due while the sampler thread waited for the GIL */
  uint64_t times = __atomic_exchange_n(&sampler.count, 0, __ATOMIC_ACQ_REL) + (now - last) / sampler.period_ns;
  times = times < 1 ? 1 : times < UINT32_MAX ? times : UINT32_MAX;
  PyObject *frames = PyObject_CallObject(python.look, NULL);
  PyObject *ident, *frame;
  Py_ssize_t at = 0;
  while (frames != NULL && PyDict_Next(frames, &at, &ident, &frame)) {
    sample(ident, (PyFrameObject *)frame, due, now < due ? due : now, (uint32_t)times, itself);
  }
  Py_XDECREF(frames);
  PyErr_Clear();
  if (collects) PyGC_Enable();
}

/* Take the due samples in the pending call, which a thread of the job runs between two of its bytecodes. */
static int on_pending_call(void *unused) {
  (void)unused;
  if (!__atomic_load_n(&sampler.asked, __ATOMIC_ACQUIRE) || sampler.pid != getpid()) return 0;
  __atomic_store_n(&sampler.asked, false, __ATOMIC_RELEASE);
  take_samples(true);
  return 0;
}

static void tick(void) {
  const msp_gate *gate = msp_gate_page;
  if (msp_gate_load(&gate->session) == 0 || msp_gate_load(&gate->refuse) & MSP_REFUSE_PAUSED) return;
  uint64_t none = 0, now = msp_now();
  __atomic_store_n(&sampler.last_ns, now, __ATOMIC_RELAXED);
  __atomic_add_fetch(&sampler.count, 1, __ATOMIC_ACQ_REL);
  __atomic_compare_exchange_n(&sampler.due_ns, &none, now, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  if (!__atomic_load_n(&sampler.asked, __ATOMIC_ACQUIRE)) {
    __atomic_store_n(&sampler.asked, true, __ATOMIC_RELEASE);
    if (msp_pending_ask(on_pending_call)) return;
    __atomic_store_n(&sampler.asked, false, __ATOMIC_RELEASE);
  }
  /* No thread of the job has run the pending call within a period, or no such call can be requested. So the sampler's
   * thread takes the GIL, and then takes the sample itself. */
  if (sampler.left_out < sampler.leaves_out) {
    ++sampler.left_out;
    return;
  }
  PyGILState_STATE state = PyGILState_Ensure();
  bool waited = msp_now() - now > WAITED_NS;
  if (!__atomic_load_n(&sampler.stop, __ATOMIC_RELAXED)) take_samples(false);
  PyGILState_Release(state);
  sampler.leaves_out = waited ? LEFT_OUT : 0;
  sampler.left_out = 0;
}

static void *work(void *unused) {
  (void)unused;
  uint64_t next = msp_clock_read(CLOCK_MONOTONIC);
  unsigned seed = (unsigned)next;
  for (;;) {
    double part = 1 + JITTER * ((double)rand_r(&seed) / RAND_MAX - 0.5);
    uint64_t now = msp_clock_read(CLOCK_MONOTONIC);
    next += (uint64_t)((double)sampler.period_ns * part);
    while (next < now) next += sampler.period_ns; /* the thread was delayed */
    const struct timespec when = msp_deadline(next);
    pthread_mutex_lock(&sampler.lock);
    int waited = 0;
    while (!sampler.stop && waited != ETIMEDOUT) {
      waited = pthread_cond_timedwait(&sampler.wake, &sampler.lock, &when);
    }
    bool stop = sampler.stop;
    pthread_mutex_unlock(&sampler.lock);
    if (!stop) tick();
    msp_stacks_write(sampler.period_ns, stop);
    if (!stop) continue;
    pthread_mutex_lock(&sampler.lock);
    sampler.ended = true;
    pthread_cond_broadcast(&sampler.reply);
    pthread_mutex_unlock(&sampler.lock);
    return NULL;
  }
}

/* Stop the sampler thread. Returns false if the thread has not ended within ten seconds. Called without the GIL,
 * because the sampler thread may wait for the GIL. */
static bool stop_thread(void) {
  const struct timespec when = msp_deadline(msp_clock_read(CLOCK_MONOTONIC) + PATIENCE_NS);
  pthread_mutex_lock(&sampler.lock);
  __atomic_store_n(&sampler.stop, true, __ATOMIC_RELAXED);
  pthread_cond_broadcast(&sampler.wake);
  int waited = 0;
  while (!sampler.ended && waited == 0) waited = pthread_cond_timedwait(&sampler.reply, &sampler.lock, &when);
  bool ended = sampler.ended;
  pthread_mutex_unlock(&sampler.lock);
  if (ended) pthread_join(sampler.thread, NULL);
  return ended;
}

static void forget(void) {
  msp_codes_forget();
  Py_CLEAR(python.look);
  Py_CLEAR(python.threads);
  msp_stacks_clear();
}

/* In a fork child, reset the state of the sampler: the child has no sampler thread, and the inherited lock may be
 * locked. */
static void check_fork(void) {
  msp_recorder_check_fork();
  if (sampler.pid == getpid()) return;
  pthread_mutex_init(&sampler.lock, NULL);
  sampler.has_wake = sampler.runs = sampler.asked = false;
  sampler.due_ns = 0;
  sampler.pid = getpid();
}

static PyObject *py_stop(PyObject *self, PyObject *unused) {
  (void)self;
  (void)unused;
  check_fork();
  if (!sampler.runs) Py_RETURN_TRUE;
  bool ended;
  Py_BEGIN_ALLOW_THREADS;
  ended = stop_thread();
  Py_END_ALLOW_THREADS;
  if (ended) {
    sampler.runs = false;
    __atomic_store_n(&sampler.due_ns, 0, __ATOMIC_RELEASE);
  }
  return PyBool_FromLong(ended);
}

static PyObject *py_start(PyObject *self, PyObject *args) {
  (void)self;
  PyObject *look, *threads;
  double rate;
  if (!PyArg_ParseTuple(args, "dOO!", &rate, &look, &PyDict_Type, &threads)) return NULL;
  check_fork();
  if (sampler.runs || PyFrame_GetBack == NULL || !(rate > 0)) Py_RETURN_FALSE;
  forget();
  Py_INCREF(look);
  Py_INCREF(threads);
  python.look = look;
  python.threads = threads;
  sampler.period_ns = (uint64_t)(1e9 / rate);
  sampler.stop = sampler.ended = false;
  sampler.due_ns = sampler.count = 0;
  if (!sampler.has_wake) {
    sampler.has_wake = true;
    msp_condition_init(&sampler.wake);
    msp_condition_init(&sampler.reply);
  }
  sampler.runs = msp_thread_start(&sampler.thread, work, STACK_BYTES, "ms-profiler-py");
  return PyBool_FromLong(sampler.runs);
}

static PyObject *py_find(PyObject *self, PyObject *unused) {
  (void)self;
  (void)unused;
  return PyBool_FromLong(msp_pending_find() != MSP_PENDING_UNKNOWN);
}

static PyMethodDef functions[] = {
    {"sample_stacks", py_start, METH_VARARGS,
     "Begin to sample: sample_stacks(rate, sys._current_frames, threads by ident) -> bool, true when it has begun."},
    {"find_pending", py_find, METH_NOARGS,
     "Find out how to make a thread of the job take samples; return true when the search has ended."},
    {"sample_no_stacks", py_stop, METH_NOARGS, "Stop sampling; return false if the sampler's thread still runs."},
    {NULL, NULL, 0, NULL}};

int msp_sampler_add(PyObject *module) {
  python.native_id = PyUnicode_InternFromString("_native_id");
  python.name = PyUnicode_InternFromString("_name");
  if (python.native_id == NULL || python.name == NULL) return -1;
  return PyModule_AddFunctions(module, functions);
}
