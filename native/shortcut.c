#include "shortcut.h"

#include "steps.h"
#include "writer.h"

static PyObject *compiling_flag; /* the name of a variable of `torch.compiler`; to make this text takes 0.5 us */

bool msp_shortcut_init(void) {
  compiling_flag = PyUnicode_InternFromString("_is_compiling_flag");
  return compiling_flag != NULL;
}

bool msp_shortcut_set(msp_shortcut *shortcut, PyObject *tuple) {
  unsigned char kind, category;
  unsigned int name;
  PyObject *steps, *known, *condition;
  if (!PyArg_ParseTuple(tuple, "bOO!OIb", &kind, &steps, &PyDict_Type, &known, &condition, &name, &category)) {
    return false;
  }
  if (kind < MSP_FORWARD || kind > MSP_WAIT || !msp_steps_check(steps)) {
    PyErr_SetString(PyExc_TypeError, "a shortcut needs the kind 1, 2 or 3, and a Steps");
    return false;
  }
  *shortcut = (msp_shortcut){kind, category, name, steps, known, condition};
  Py_INCREF(steps);
  Py_INCREF(known);
  Py_INCREF(condition);
  return true;
}

int msp_shortcut_visit(const msp_shortcut *shortcut, visitproc visit, void *arg) {
  Py_VISIT(shortcut->steps);
  Py_VISIT(shortcut->known);
  Py_VISIT(shortcut->condition);
  return 0;
}

void msp_shortcut_clear(msp_shortcut *shortcut) {
  shortcut->kind = 0;
  Py_CLEAR(shortcut->steps);
  Py_CLEAR(shortcut->known);
  Py_CLEAR(shortcut->condition);
}

/* Return whether the condition returns True. The condition is a function in C, so no signal handler of the job runs. */
static bool holds(const msp_shortcut *shortcut) {
  PyObject *answer = PyObject_CallNoArgs(shortcut->condition);
  if (answer == NULL) PyErr_Clear();
  Py_XDECREF(answer); /* True lives forever */
  return answer == Py_True;
}

/* Return whether PyTorch compiles nothing now. This reads a variable of `torch.compiler` and calls no function in
 * Python, in which a signal handler of the job might raise an exception. */
static bool compiles_nothing(const msp_shortcut *shortcut) {
  PyObject *flag = PyDict_GetItemWithError(shortcut->known, compiling_flag);
  if (flag == NULL) PyErr_Clear();
  return flag == Py_False;
}

static bool is_known(const msp_shortcut *shortcut, PyObject *object) {
  bool found = msp_by_id(shortcut->known, object) != NULL;
  if (!found) PyErr_Clear();
  return found;
}

/* Return whether a call of PyTorch's function for backward passes adds gradients to the parameters; the arguments of
 * the call say so. */
static bool accumulates(PyObject *const *args, size_t count, PyObject *names) {
  for (Py_ssize_t i = 0, named = names == NULL ? 0 : PyTuple_Size(names); i < named; ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, i), "accumulate_grad") == 0) {
      return args[count + (size_t)i] == Py_True;
    }
  }
  return false;
}

bool msp_shortcut_take(const msp_shortcut *shortcut, PyObject *const *args, size_t count, PyObject *names) {
  if (count == 0 || !msp_writer_leaves_out(MSP_CATEGORY_FINE)) return false;
  if (shortcut->kind == MSP_WAIT) return is_known(shortcut, args[0]) && msp_steps_waits(shortcut->steps);
  bool forward = shortcut->kind == MSP_FORWARD;
  /* msp_steps_work comes last, because it cannot be undone */
  return (forward ? is_known(shortcut, args[0]) && holds(shortcut)
                  : accumulates(args, count, names) && compiles_nothing(shortcut)) &&
         msp_steps_work(shortcut->steps, forward);
}
