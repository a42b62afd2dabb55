#include "shield.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Largest number of attempts to call a function of ours, when exceptions of the job interrupt each call. */
enum { TRIES = 3 };

/* An exception of the job that is to be raised later. A fork child does not get the signals of its parent. So it does
 * not raise the exceptions that belong to these signals, either; `process` is the process that raises this one. */
typedef struct {
  PyObject *reason;
  pid_t process;
} delayed;

/* Raise a delayed exception. Python calls this function on the main thread between two instructions, as it calls signal
 * handlers. */
static int raise_now(void *argument) {
  delayed *item = argument;
  PyObject *reason = item->reason;
  bool own = item->process == getpid();
  free(item);
  if (own) PyErr_SetObject((PyObject *)Py_TYPE(reason), reason);
  Py_DECREF(reason);
  return own ? -1 : 0;
}

/* Make this thread raise an exception after the function of ours that C code has called. Returns false if that is
 * impossible. */
static bool raise_later(PyObject *reason) {
  if (syscall(SYS_gettid) != getpid()) { /* not the main thread: another thread has sent the exception */
    return PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), (PyObject *)Py_TYPE(reason)) == 1;
  }
  delayed *item = malloc(sizeof *item);
  if (item == NULL) return false;
  *item = (delayed){reason, getpid()};
  Py_INCREF(reason);
  if (Py_AddPendingCall(raise_now, item) == 0) return true;
  Py_DECREF(reason);
  free(item);
  return false;
}

/* Clear the current exception of Python, and return it with its traceback; NULL: there was none. */
static PyObject *taken(void) {
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  if (kind == NULL) return NULL;
  PyErr_NormalizeException(&kind, &value, &trace);
  if (trace != NULL) PyException_SetTraceback(value, trace);
  Py_XDECREF(kind);
  Py_XDECREF(trace);
  return value;
}

bool msp_shield_clear(void) {
  PyObject *reason = taken();
  PyObject *trace = reason == NULL ? NULL : PyException_GetTraceback(reason);
  bool later = trace != NULL && raise_later(reason);
  Py_XDECREF(trace);
  Py_XDECREF(reason);
  return later;
}

/* Pass the current exception to `failed`. Returns the result of `failed`; NULL: it raised the exception again. */
static PyObject *answer(PyObject *failed) {
  PyObject *reason = taken();
  PyObject *result = PyObject_CallFunctionObjArgs(failed, reason, NULL);
  Py_XDECREF(reason);
  return result;
}

bool msp_shield_handled(PyObject *failed) {
  PyObject *result = failed == NULL ? NULL : answer(failed);
  Py_XDECREF(result);
  return result != NULL;
}

/* Call a function of ours. Returns its result. When the function raises an exception, `failed` handles the exception,
 * or raises it again if it is the job's. In the second case, the result is NULL. */
static PyObject *attempt(PyObject *function, PyObject *failed, PyObject *args) {
  PyObject *result = PyObject_Call(function, args, NULL);
  return result == NULL ? answer(failed) : result;
}

/* Call a function of ours, and delay exceptions of the job until after it. `pair` holds this function, and `failed`,
 * which handles exceptions. When an exception of the job ends our function early, this code calls our function again,
 * and schedules the exception only then. If it scheduled the exception before, Python would raise the exception at the
 * begin of the second call. */
static PyObject *shielded(PyObject *pair, PyObject *args) {
  PyObject *reasons[TRIES], *result = NULL;
  int count = 0;
  while (result == NULL && count < TRIES) {
    result = attempt(PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1), args);
    if (result == NULL) reasons[count++] = taken();
  }
  bool delayed = true;
  for (int i = 0; i < count; ++i) {
    if (delayed && !raise_later(reasons[i])) {
      delayed = false;
      PyErr_SetObject((PyObject *)Py_TYPE(reasons[i]), reasons[i]);
    }
    Py_DECREF(reasons[i]);
  }
  if (delayed && result == NULL) Py_RETURN_NONE;
  if (delayed) return result;
  Py_XDECREF(result);
  return NULL;
}

static PyMethodDef method = {"shielded", shielded, METH_VARARGS, "Call a function of ms-profiler."};

static PyObject *shield(PyObject *self, PyObject *args) {
  (void)self;
  PyObject *function, *failed;
  if (!PyArg_ParseTuple(args, "OO", &function, &failed)) return NULL;
  PyObject *module = PyObject_GetAttrString(function, "__module__");
  if (module == NULL) return NULL;
  PyObject *made = PyCFunction_NewEx(&method, args, module);
  Py_DECREF(module);
  return made;
}

static PyMethodDef functions[] = {
    {"shield", shield, METH_VARARGS,
     "Return a function that calls another one and delays the job's exceptions: shield(function, failed)."},
    {NULL, NULL, 0, NULL},
};

int msp_shield_add(PyObject *module) { return PyModule_AddFunctions(module, functions); }
