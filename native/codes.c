#include "codes.h"

#include <stdlib.h>
#include <string.h>

#include "file_format.h"
#include "shield.h"
#include "strings.h"

#define CODES_MOST 32768 /* code objects; they are kept alive, so that no other object gets their address */
#define PER_BLOCK 256
#define PAUSING 0x2A0 /* CO_GENERATOR, CO_COROUTINE and CO_ASYNC_GENERATOR of the flags of a code object */
#define PATHS_MOST 64
#define OURS "ms_profiler." /* prefix of the names of ms-profiler's functions in C */

/* This function exists since Python 3.11, as does the attribute `co_qualname` of code objects. So the function also
 * shows whether code objects have this attribute. */
extern int PyFrame_GetLasti(PyFrameObject *frame) __attribute__((weak));
/* This type is not part of Python's limited API; it exists since 3.9. */
extern PyTypeObject PyCMethod_Type __attribute__((weak));

/* The first fields of functions and methods in C. They are the same in all versions of Python since 3.7, except for
 * free-threaded ones. */
typedef struct {
  PyObject head;
  PyMethodDef *definition;
} c_function;

typedef struct {
  PyObject head;
  PyTypeObject *type;
  PyObject *name, *qualname;
  PyMethodDef *definition;
} c_method;

typedef struct block {
  struct block *next;
  uint32_t used;
  msp_code codes[PER_BLOCK];
} block;

typedef struct {
  const void *key;
  msp_code *code; /* NULL: none */
} cell;

static struct {
  cell *cells;
  uint32_t mask, count;
  block *blocks;
  PyObject *filename, *first_line, *flags, *code_name, *qualname, *module;
  PyTypeObject *method; /* type of methods in C */
  PyObject *only, *without;
  bool before_312;
} known;

static uint32_t intern_text(PyObject *text) {
  if (text == NULL || !PyUnicode_Check(text)) return 0;
  PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
  if (bytes == NULL) return 0;
  uint32_t id = msp_intern(PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes), MSP_OF_THE_JOB, 0);
  Py_DECREF(bytes);
  return id;
}

uint32_t msp_intern_attribute(PyObject *of, PyObject *name) {
  PyObject *value = PyObject_GenericGetAttr(of, name);
  uint32_t id = intern_text(value);
  Py_XDECREF(value);
  PyErr_Clear();
  return id;
}

uint32_t msp_number_attribute(PyObject *of, PyObject *name) {
  PyObject *value = PyObject_GenericGetAttr(of, name);
  unsigned long number = value != NULL && PyLong_Check(value) ? PyLong_AsUnsignedLongMask(value) : 0;
  Py_XDECREF(value);
  PyErr_Clear();
  return (uint32_t)number;
}

static inline cell *cell_of(cell *cells, uint32_t mask, const void *key) {
  uint32_t at = (uint32_t)((uintptr_t)key >> 4 ^ (uintptr_t)key >> 20) & mask;
  while (cells[at].key != key && cells[at].key != NULL) at = (at + 1) & mask;
  return &cells[at];
}

static bool make_room(void) {
  uint32_t cells = known.cells == NULL ? 0 : known.mask + 1;
  if (2 * (known.count + 1) < cells) return true;
  uint32_t mask = (cells == 0 ? 1024 : 2 * cells) - 1;
  cell *grown = calloc(mask + 1, sizeof *grown);
  if (grown == NULL) return false;
  for (uint32_t i = 0; i < cells; ++i) {
    if (known.cells[i].key != NULL) *cell_of(grown, mask, known.cells[i].key) = known.cells[i];
  }
  free(known.cells);
  known.cells = grown;
  known.mask = mask;
  return true;
}

static msp_code *new_code(const void *key) {
  if (known.count >= CODES_MOST || !make_room()) return NULL;
  if (known.blocks == NULL || known.blocks->used == PER_BLOCK) {
    block *more = calloc(1, sizeof *more);
    if (more == NULL) return NULL;
    more->next = known.blocks;
    known.blocks = more;
  }
  msp_code *made = &known.blocks->codes[known.blocks->used++];
  made->key = key;
  made->number = ++known.count;
  *cell_of(known.cells, known.mask, key) = (cell){key, made};
  return made;
}

static bool names(PyObject *paths, const char *file) {
  Py_ssize_t count = paths == NULL ? 0 : PyTuple_Size(paths);
  for (Py_ssize_t i = 0; i < count; ++i) {
    const char *path = PyBytes_AsString(PyTuple_GetItem(paths, i));
    if (path == NULL || path[0] == 0) continue;
    if (path[0] == '/' ? strncmp(file, path, strlen(path)) == 0 : strstr(file, path) != NULL) return true;
  }
  return false;
}

static bool leaves_out(PyObject *code) {
  PyObject *file = PyObject_GenericGetAttr(code, known.filename);
  PyObject *bytes =
      file != NULL && PyUnicode_Check(file) ? PyUnicode_AsEncodedString(file, "utf-8", "surrogateescape") : NULL;
  const char *text = bytes == NULL ? "" : PyBytes_AsString(bytes);
  bool some = known.only != NULL && PyTuple_Size(known.only) > 0;
  bool left_out = (some && !names(known.only, text)) || names(known.without, text);
  Py_XDECREF(bytes);
  Py_XDECREF(file);
  PyErr_Clear();
  return left_out;
}

static void settle(msp_code *made) {
  const uint32_t most = MSP_FRAME_LINE_MOST;
  uint32_t line = made->source.line < most ? made->source.line : most;
  made->callee.key = made->key;
  made->callee.name = made->source.name;
  made->callee.place = (uint64_t)made->source.file << (2 * MSP_FRAME_LINE_BITS) | (uint64_t)line << MSP_FRAME_LINE_BITS;
}

static const msp_code *add_code(PyObject *code) {
  msp_code *made = new_code(code);
  if (made == NULL) return NULL;
  Py_INCREF(code);
  made->source = (msp_function){msp_intern_attribute(code, known.code_name), msp_intern_attribute(code, known.filename),
                                msp_number_attribute(code, known.first_line)};
  made->left_out = leaves_out(code);
  if ((msp_number_attribute(code, known.flags) & PAUSING) != 0 && known.before_312) {
    made->pauses = PyObject_GetAttrString(code, "co_code");
    PyErr_Clear();
  }
  settle(made);
  return made;
}

const msp_code *msp_code_of(PyObject *code) {
  if (known.cells != NULL) {
    const msp_code *found = cell_of(known.cells, known.mask, code)->code;
    if (found != NULL) return found;
  }
  return add_code(code);
}

static bool is_method(PyObject *callable) { return Py_TYPE(callable) == known.method; }

/* Return whether an object is a function in C. Such functions have exactly these types, so there is no need to check
 * the base classes of the object's type, which would take 8 ns. */
static bool is_function(PyObject *callable) {
  return Py_TYPE(callable) == &PyCFunction_Type || (&PyCMethod_Type != NULL && Py_TYPE(callable) == &PyCMethod_Type);
}

bool msp_code_is_c(PyObject *callable) { return is_method(callable) || is_function(callable); }

/* Return an attribute of a function in C, or NULL. To make a qualified name, Python calls PyObject_Str, which may call
 * signal handlers of the job. If a handler raises an exception, there is no attribute yet. */
static PyObject *attribute_of(PyObject *callable, PyObject *name) {
  PyObject *value = PyObject_GenericGetAttr(callable, name);
  if (value == NULL && msp_shield_clear()) value = PyObject_GenericGetAttr(callable, name);
  if (value == NULL) msp_shield_clear();
  return value;
}

static uint32_t intern_c(PyObject *callable, const char *name, bool *ours) {
  char text[256];
  size_t length = 0;
  PyObject *parts[2] = {NULL, attribute_of(callable, known.qualname)};
  parts[0] = is_method(callable) ? NULL : attribute_of(callable, known.module);
  for (int i = 0; i < 2; ++i) {
    PyObject *bytes =
        parts[i] != NULL && PyUnicode_Check(parts[i]) ? PyUnicode_AsEncodedString(parts[i], "utf-8", "replace") : NULL;
    const char *part = bytes != NULL ? PyBytes_AsString(bytes) : i == 1 ? name : NULL;
    if (part != NULL) {
      size_t more = strlen(part), room = sizeof text - 2 - length;
      if (length > 0) text[length++] = '.';
      more = more < room ? more : room;
      memcpy(text + length, part, more);
      length += more;
    }
    Py_XDECREF(bytes);
    Py_XDECREF(parts[i]);
    PyErr_Clear();
  }
  text[length] = 0;
  *ours = strncmp(text, OURS, sizeof OURS - 1) == 0;
  return msp_intern(text, msp_whole_characters(text, length), MSP_OF_THE_JOB, 0);
}

const msp_code *msp_code_of_c(PyObject *callable) {
  const PyMethodDef *definition = NULL;
  if (is_method(callable)) {
    definition = ((const c_method *)(const void *)callable)->definition;
  } else if (is_function(callable)) {
    definition = ((const c_function *)(const void *)callable)->definition;
  }
  if (definition == NULL) return NULL;
  msp_code *made = known.cells == NULL ? NULL : cell_of(known.cells, known.mask, definition)->code;
  if (made != NULL && made->named == definition->ml_name) return made;
  if (made == NULL) made = new_code(definition); /* otherwise reuse the entry of an older function at this address */
  if (made == NULL) return NULL;
  made->named = definition->ml_name;
  made->source = (msp_function){intern_c(callable, definition->ml_name, &made->left_out), 0, 0};
  settle(made);
  return made;
}

int msp_codes_choose(PyObject *only, PyObject *without) {
  for (int i = 0; i < 2; ++i) {
    PyObject *paths = i == 0 ? only : without;
    if (!PyTuple_Check(paths) || PyTuple_Size(paths) > PATHS_MOST) {
      PyErr_SetString(PyExc_TypeError, "a tuple of at most 64 paths is needed");
      return -1;
    }
    for (Py_ssize_t item = 0; item < PyTuple_Size(paths); ++item) {
      if (PyBytes_AsString(PyTuple_GetItem(paths, item)) == NULL) return -1;
    }
  }
  Py_INCREF(only);
  Py_INCREF(without);
  Py_XDECREF(known.only);
  Py_XDECREF(known.without);
  known.only = only;
  known.without = without;
  return 0;
}

void msp_codes_forget(void) {
  block *blocks = known.blocks;
  free(known.cells);
  known.cells = NULL;
  known.blocks = NULL;
  known.mask = known.count = 0;
  while (blocks != NULL) { /* after the fields are reset: the end of a code object may run code of the job */
    block *next = blocks->next;
    for (uint32_t i = 0; i < blocks->used; ++i) {
      Py_XDECREF(blocks->codes[i].pauses);
      if (blocks->codes[i].named == NULL) Py_DECREF((PyObject *)(uintptr_t)blocks->codes[i].key);
    }
    free(blocks);
    blocks = next;
  }
}

int msp_codes_init(void) {
  known.filename = PyUnicode_InternFromString("co_filename");
  known.first_line = PyUnicode_InternFromString("co_firstlineno");
  known.flags = PyUnicode_InternFromString("co_flags");
  known.code_name = PyUnicode_InternFromString(PyFrame_GetLasti != NULL ? "co_qualname" : "co_name");
  known.qualname = PyUnicode_InternFromString("__qualname__");
  known.module = PyUnicode_InternFromString("__module__");
  PyObject *append = PyObject_GetAttrString((PyObject *)&PyList_Type, "append");
  if (append == NULL || known.filename == NULL || known.first_line == NULL || known.flags == NULL ||
      known.code_name == NULL || known.qualname == NULL || known.module == NULL) {
    return -1;
  }
  const char *minor = strchr(Py_GetVersion(), '.');
  known.before_312 = minor != NULL && atoi(minor + 1) < 12;
  known.method = Py_TYPE(append);
  Py_DECREF(append);
  return 0;
}
