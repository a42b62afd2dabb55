/* Shortcuts: what the wrapper of a function does without Python code in the usual case. steps.h says what is usual. */
#ifndef MSP_SHORTCUT_H
#define MSP_SHORTCUT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* The kinds of shortcuts. job/recorder/shortcut.py describes them. */
enum { MSP_FORWARD = 1, MSP_BACKWARD, MSP_WAIT };

typedef struct {
  uint8_t kind; /* 0: there is no shortcut */
  uint8_t category;
  uint32_t name;
  PyObject *steps;
  PyObject *known;     /* {id of a module or an iterator: label}; for MSP_BACKWARD, the variables of `torch.compiler` */
  PyObject *condition; /* for MSP_FORWARD, a function in C without arguments, which must return True */
} msp_shortcut;

/* Make the text that shortcuts look up. Called once, when the module is imported. Returns false with an exception set.
 */
bool msp_shortcut_init(void);

/* Set a shortcut from the tuple (kind, steps, known, condition, name, category). Returns false with an exception set.
 */
bool msp_shortcut_set(msp_shortcut *shortcut, PyObject *tuple);

int msp_shortcut_visit(const msp_shortcut *shortcut, visitproc visit, void *arg);
void msp_shortcut_clear(msp_shortcut *shortcut);

/* Return whether a call of a wrapped function is the usual case. If so, the wrapper has to record the call as a span
 * with the name and the category of the shortcut; for MSP_WAIT, with the label of the first argument. `count` is the
 * number of positional arguments. */
bool msp_shortcut_take(const msp_shortcut *shortcut, PyObject *const *args, size_t count, PyObject *names);

#endif
