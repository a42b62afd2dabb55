/* The Python module `ms_profiler._native`: the module that cffi generates, and in addition the functions that record
 * events.
 *
 * A call through cffi releases the GIL. When another thread computes, the call may wait 5 ms to get the GIL back. So
 * the functions of this file are no cffi functions, and do not release the GIL. Their longest action is to make a file
 * for records.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <string.h>

#include "block_places.h"
#include "blocks.h"
#include "control.h"
#include "fast_region.h"
#include "observer.h"
#include "optimizers.h"
#include "recorder.h"
#include "sampler.h"
#include "shield.h"
#include "steps.h"
#include "strings.h"
#include "tracer.h"
#include "wrapper.h"
#include "writer.h"

/* The function that makes cffi's module. The C source that cffi generates defines it; build_ffi.py gives it this
 * name. */
PyObject *msp_cffi_init(void);

static bool count_is(Py_ssize_t count, Py_ssize_t least, Py_ssize_t most, const char *function) {
  if (count >= least && count <= most) return true;
  PyErr_Format(PyExc_TypeError, "%s() takes %zd to %zd arguments, not %zd", function, least, most, count);
  return false;
}

/* Return the low 64 bits of a Python integer. For any other object, set an exception, which the function `failed`
 * detects. */
static inline uint64_t integer(PyObject *object) { return PyLong_AsUnsignedLongLongMask(object); }

static inline bool failed(uint64_t last) { return last == UINT64_MAX && PyErr_Occurred() != NULL; }

static PyObject *py_begin(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  if (!count_is(count, 2, 3, "begin")) return NULL;
  uint64_t name = integer(args[0]);
  if (failed(name)) return NULL;
  uint64_t category = integer(args[1]);
  if (failed(category)) return NULL;
  uint64_t arg = count == 3 ? integer(args[2]) : 0;
  if (failed(arg)) return NULL;
  return PyLong_FromLong((long)msp_begin((uint32_t)name, (uint8_t)category, arg));
}

static PyObject *py_end(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  if (!count_is(count, 1, 2, "end")) return NULL;
  uint64_t token = integer(args[0]);
  if (failed(token)) return NULL;
  uint64_t flags = count == 2 ? integer(args[1]) : 0;
  if (failed(flags)) return NULL;
  msp_end((uint32_t)token, (uint8_t)flags);
  Py_RETURN_NONE;
}

static PyObject *py_instant(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  if (!count_is(count, 2, 3, "instant")) return NULL;
  uint64_t name = integer(args[0]);
  if (failed(name)) return NULL;
  uint64_t category = integer(args[1]);
  if (failed(category)) return NULL;
  uint64_t arg = count == 3 ? integer(args[2]) : 0;
  if (failed(arg)) return NULL;
  msp_instant((uint32_t)name, (uint8_t)category, arg);
  Py_RETURN_NONE;
}

static PyObject *py_counter(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  if (!count_is(count, 2, 2, "counter")) return NULL;
  uint64_t name = integer(args[0]);
  if (failed(name)) return NULL;
  double value = PyFloat_AsDouble(args[1]);
  if (value == -1.0 && PyErr_Occurred() != NULL) return NULL;
  msp_counter((uint32_t)name, value);
  Py_RETURN_NONE;
}

static PyObject *py_record(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  if (!count_is(count, 7, 7, "record")) return NULL;
  uint64_t values[7];
  for (int i = 0; i < 7; ++i) {
    values[i] = integer(args[i]);
    if (failed(values[i])) return NULL;
  }
  return PyBool_FromLong(msp_record((uint8_t)values[0], (uint8_t)values[1], (uint8_t)values[2], (uint32_t)values[3],
                                    values[4], values[5], values[6]));
}

static PyObject *py_now(PyObject *self, PyObject *unused) {
  (void)self;
  (void)unused;
  return PyLong_FromUnsignedLongLong(msp_writer_now());
}

/* Call `use` with the UTF-8 text of a Python string. Lone surrogates, which UTF-8 cannot encode, become question marks.
 * Returns false with an exception on failure. */
static bool with_text(PyObject *text, void (*use)(const char *, size_t, uint32_t *), uint32_t *result) {
  Py_ssize_t length;
  if (!PyUnicode_Check(text)) {
    PyErr_SetString(PyExc_TypeError, "a str is needed");
    return false;
  }
  const char *utf8 = PyUnicode_AsUTF8AndSize(text, &length);
  if (utf8 != NULL) {
    use(utf8, (size_t)length, result);
    return true;
  }
  PyErr_Clear();
  PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
  char *replaced;
  if (bytes == NULL || PyBytes_AsStringAndSize(bytes, &replaced, &length) < 0) {
    Py_XDECREF(bytes);
    return false;
  }
  use(replaced, (size_t)length, result);
  Py_DECREF(bytes);
  return true;
}

static void use_intern(const char *text, size_t length, uint32_t *id) { *id = msp_intern(text, length, MSP_OURS, 0); }

/* Store a name, and get its id. At the call, `*id` is the largest number of names of the kind MSP_COUNTED; afterwards,
 * it is the id of the name. */
static void use_counted(const char *text, size_t length, uint32_t *id) {
  *id = msp_intern(text, length, MSP_COUNTED, *id);
}

static PyObject *py_intern(PyObject *self, PyObject *text) {
  (void)self;
  uint32_t id = 0;
  return with_text(text, use_intern, &id) ? PyLong_FromUnsignedLong(id) : NULL;
}

static PyObject *py_intern_one_of(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  if (!count_is(count, 2, 2, "intern_one_of")) return NULL;
  uint64_t most = integer(args[1]);
  if (failed(most)) return NULL;
  uint32_t id = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
  return with_text(args[0], use_counted, &id) ? PyLong_FromUnsignedLong(id) : NULL;
}

static PyObject *py_anonymize(PyObject *self, PyObject *key) {
  (void)self;
  char *bytes;
  Py_ssize_t length;
  if (PyBytes_AsStringAndSize(key, &bytes, &length) < 0) return NULL;
  if (length != 16) {
    PyErr_SetString(PyExc_ValueError, "a key of 16 bytes is needed");
    return NULL;
  }
  msp_strings_anonymize((const unsigned char *)bytes);
  Py_RETURN_NONE;
}

static void use_name(const char *text, size_t length, uint32_t *unused) {
  (void)unused;
  msp_writer_name(text, length);
}

static PyObject *py_thread_name(PyObject *self, PyObject *text) {
  (void)self;
  if (!with_text(text, use_name, NULL)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *py_connect_operators(PyObject *self, PyObject *args) {
  (void)self;
  const char *library;
  unsigned thread, scope, sequence, forward, async;
  if (!PyArg_ParseTuple(args, "yIIIII", &library, &thread, &scope, &sequence, &forward, &async)) return NULL;
  const msp_observer_layout layout = {thread, scope, sequence, forward, async};
  const char *reason = msp_observer_connect(library, &layout);
  return PyUnicode_FromString(reason == NULL ? "" : reason);
}

static PyObject *py_take_operators(PyObject *self, PyObject *on) {
  (void)self;
  int truth = PyObject_IsTrue(on);
  if (truth < 0) return NULL;
  msp_observer_switch(truth);
  Py_RETURN_NONE;
}

static void hand_over(const char *text, size_t length, uint32_t *unused) {
  (void)length;
  (void)unused;
  msp_observer_hand_over(text);
}

static PyObject *py_hand_over_region(PyObject *self, PyObject *name) {
  (void)self;
  if (!with_text(name, hand_over, NULL)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *py_operators_elsewhere(PyObject *self, PyObject *unused) {
  (void)self;
  (void)unused;
  return PyBool_FromLong(msp_observer_elsewhere());
}

/* Wait until no other thread records, and then call a Python function. Both happen in this C function: between two
 * Python functions, the interpreter might let another thread run. */
static PyObject *py_call_at_rest(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  if (!count_is(count, 2, 2, "call_at_rest")) return NULL;
  uint64_t most_ns = integer(args[0]);
  if (failed(most_ns)) return NULL;
  msp_await_rest(most_ns);
  return PyObject_CallNoArgs(args[1]);
}

static PyObject *py_pause(PyObject *self, PyObject *paused) {
  (void)self;
  int truth = PyObject_IsTrue(paused);
  if (truth < 0) return NULL;
  msp_pause(truth);
  msp_tracer_settle();
  Py_RETURN_NONE;
}

static PyObject *py_fine(PyObject *self, PyObject *on) {
  (void)self;
  int truth = PyObject_IsTrue(on);
  if (truth < 0) return NULL;
  msp_fine(truth);
  msp_tracer_settle();
  Py_RETURN_NONE;
}

static PyObject *py_anchor(PyObject *self, PyObject *unused) {
  (void)self;
  (void)unused;
  msp_recorder_check_fork();
  msp_control_anchor();
  Py_RETURN_NONE;
}

static PyObject *py_stats(PyObject *self, PyObject *unused) {
  (void)self;
  (void)unused;
  msp_stats stats;
  msp_get_stats(&stats);
  return Py_BuildValue("(KKKKKIKi)", (unsigned long long)stats.records, (unsigned long long)stats.dropped,
                       (unsigned long long)stats.dropped_limit, (unsigned long long)stats.bytes,
                       (unsigned long long)stats.unnamed, (unsigned int)stats.threads,
                       (unsigned long long)stats.helper_ns, stats.failure);
}

static PyObject *py_blocks(PyObject *self, PyObject *unused) {
  (void)self;
  (void)unused;
  msp_blocks_counts counts;
  msp_blocks_count(&counts);
  return Py_BuildValue("(KKKKKN)", (unsigned long long)counts.live, (unsigned long long)counts.peak,
                       (unsigned long long)counts.made, (unsigned long long)counts.freed,
                       (unsigned long long)counts.lost, PyBool_FromLong(counts.intact));
}

static PyObject *py_scratch(PyObject *self, PyObject *on) {
  (void)self;
  int truth = PyObject_IsTrue(on);
  if (truth < 0) return NULL;
  return PyBool_FromLong(msp_writer_scratch(truth));
}

#define FAST(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL

static PyMethodDef functions[] = {
    {"begin", FAST(py_begin), "Begin a span: begin(name, category, arg=0) -> token, 0 when not recorded."},
    {"end", FAST(py_end), "End a span: end(token, flags=0)."},
    {"instant", FAST(py_instant), "Record that something happens now: instant(name, category, arg=0)."},
    {"counter", FAST(py_counter), "Record the value of a counter now: counter(name, value)."},
    {"record", FAST(py_record),
     "Record a complete slot: record(kind, category, flags, name, start_ns, end_ns, arg) -> bool, true when recorded."},
    {"now", py_now, METH_NOARGS, "Return CLOCK_MONOTONIC_RAW in nanoseconds."},
    {"intern", py_intern, METH_O, "Return the id of a string, 0 when it cannot be written."},
    {"intern_one_of", FAST(py_intern_one_of),
     "As intern, for at most `most` different names: intern_one_of(text, most)."},
    {"anonymize", py_anonymize, METH_O, "Replace names of the job by hashes with this key of 16 bytes."},
    {"thread_name", py_thread_name, METH_O, "Set the name of the calling thread."},
    {"connect_operators", py_connect_operators, METH_VARARGS,
     "Find PyTorch's functions in a loaded library: connect_operators(path, thread, scope, sequence, forward, "
     "async) -> reason."},
    {"take_operators", py_take_operators, METH_O, "Record the operators of all threads while true."},
    {"hand_over_region", py_hand_over_region, METH_O,
     "End the innermost operator of this thread if it is a region of this name."},
    {"operators_elsewhere", py_operators_elsewhere, METH_NOARGS,
     "Return whether other threads have begun operators since the last call on this thread."},
    {"call_at_rest", FAST(py_call_at_rest),
     "Call a function when no other thread records, or after a time: call_at_rest(call, most_ns) -> its result."},
    {"pause", py_pause, METH_O, "Refuse new spans, instants and counters while true."},
    {"fine", py_fine, METH_O, "Refuse fine-grained categories while false."},
    {"anchor", py_anchor, METH_NOARGS, "Write an anchor: one moment in both clocks."},
    {"stats", py_stats, METH_NOARGS,
     "Return (records, dropped, dropped_limit, bytes, unnamed, threads, helper_ns, failure)."},
    {"blocks", py_blocks, METH_NOARGS, "Return (live, peak, made, freed, lost, intact) of the allocator's blocks."},
    {"scratch", py_scratch, METH_O,
     "While true, this thread writes to memory instead of the store, to measure the cost."},
    {NULL, NULL, 0, NULL}};

PyMODINIT_FUNC PyInit__native(void) {
  int error = msp_recorder_init();
  if (error != 0) return PyErr_Format(PyExc_ImportError, "the recorder cannot be set up: %s", strerror(error));
  PyObject *module = msp_cffi_init();
  if (module != NULL &&
      (PyModule_AddFunctions(module, functions) < 0 || msp_wrapper_add(module) < 0 || msp_steps_add(module) < 0 ||
       msp_optimizers_add(module) < 0 || msp_sampler_add(module) < 0 || msp_shield_add(module) < 0 ||
       msp_fast_region_add(module) < 0 || msp_block_places_add(module) < 0 || msp_tracer_add(module) < 0)) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
