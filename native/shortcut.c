#include "shortcut.h"

#include "steps.h"
#include "writer.h"

bool msp_shortcut_set(msp_shortcut *shortcut, PyObject *tuple) {
  unsigned char kind, category;
  unsigned int name;
  PyObject *steps, *known, *condition;
  if (!PyArg_ParseTuple(tuple, "bOO!OIb", &kind, &steps, &PyDict_Type, &known, &condition, &name, &category)) {
    return false;
  }
  if (kind < MSP_FORWARD || kind > MSP_OPTIMIZER_ENDS || !msp_steps_check(steps)) {
    PyErr_SetString(PyExc_TypeError, "a shortcut needs a kind from 1 to 4, and a Steps");
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

/* Return whether the condition of a shortcut, a Python function, returns the object `expected`. */
static bool answers(const msp_shortcut *shortcut, const PyObject *expected) {
  PyObject *answer = PyObject_CallNoArgs(shortcut->condition);
  if (answer == NULL) PyErr_Clear();
  Py_XDECREF(answer); /* True and False live forever */
  return answer == expected;
}

static bool is_known(const msp_shortcut *shortcut, PyObject *object) {
  PyObject *key = PyLong_FromVoidPtr(object);
  bool found = key != NULL && PyDict_GetItemWithError(shortcut->known, key) != NULL;
  Py_XDECREF(key);
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

msp_course msp_shortcut_take(const msp_shortcut *shortcut, PyObject *const *args, size_t count, PyObject *names) {
  if (count == 0) return MSP_UNUSUAL;
  switch (shortcut->kind) {
    case MSP_FORWARD:
      /* msp_steps_work comes last, because it cannot be undone */
      return msp_writer_leaves_out(MSP_CATEGORY_FINE) && is_known(shortcut, args[0]) && answers(shortcut, Py_True) &&
                     msp_steps_work(shortcut->steps, true)
                 ? MSP_SPAN
                 : MSP_UNUSUAL;
    case MSP_BACKWARD:
      return msp_writer_leaves_out(MSP_CATEGORY_FINE) && accumulates(args, count, names) &&
                     answers(shortcut, Py_False) && msp_steps_work(shortcut->steps, false)
                 ? MSP_SPAN
                 : MSP_UNUSUAL;
    case MSP_OPTIMIZER_BEGINS:
      return msp_steps_optimizer_begins(shortcut->steps, args[0], shortcut->known, shortcut->category) ? MSP_DONE
                                                                                                       : MSP_UNUSUAL;
    case MSP_OPTIMIZER_ENDS:
      switch (msp_steps_optimizer_ends(shortcut->steps, args[0])) {
        case 0:
          return MSP_UNUSUAL;
        case 1:
          return MSP_DONE;
        default:
          return MSP_FAILED;
      }
    default:
      return MSP_UNUSUAL;
  }
}
