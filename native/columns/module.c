/* The Python module `ms_profiler._columns`: what the analysis does a million times, on columns of Polars.
 *
 * It is no part of the extension that records: a job never loads it. Other threads run while it works.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arrow.h"
#include "file_format.h"
#include "nesting.h"
#include "perfetto_module.h"
#include "rows.h"
#include "slots.h"

enum { PARTS_MOST = 64, BLOCK = 1024 };

/* Take columns from the arguments of a function: `formats` has a letter for each. */
static bool take(PyObject *const *args, Py_ssize_t count, const char *formats, msp_column *columns) {
  if (count != (Py_ssize_t)strlen(formats)) {
    PyErr_Format(PyExc_TypeError, "%zd columns are needed, not %zd", strlen(formats), count);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    bool taken = msp_column_take(args[i], formats[i], &columns[i]);
    bool same = taken && columns[i].count == columns[0].count;
    if (taken && !same) {
      PyErr_SetString(PyExc_ValueError, "columns of different lengths");
      msp_column_release(&columns[i]);
    }
    if (!same) {
      while (i-- > 0) msp_column_release(&columns[i]);
      return false;
    }
  }
  return true;
}

static void release(msp_column *columns, int count) {
  for (int i = 0; i < count; ++i) msp_column_release(&columns[i]);
}

/* Memory for new columns, at least a byte each; false: there is none, and none is held. */
static bool allocate(msp_new_column *columns, const size_t *widths, int count, int64_t rows) {
  bool all = true;
  for (int i = 0; i < count; ++i) {
    columns[i].values = calloc((size_t)rows + 1, widths[i]);
    all = all && columns[i].values != NULL;
  }
  if (all) return true;
  for (int i = 0; i < count; ++i) free(columns[i].values);
  PyErr_NoMemory();
  return false;
}

static PyObject *py_slots(PyObject *self, PyObject *bytes) {
  (void)self;
  char *slots;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(bytes, &slots, &size) < 0) return NULL;
  int64_t rows = size / MSP_SLOT_SIZE;
  msp_new_column columns[] = {{"start_ns", 'l', NULL, NULL}, {"end_ns", 'l', NULL, NULL}, {"arg", 'L', NULL, NULL},
                              {"id", 'I', NULL, NULL},       {"kind", 'C', NULL, NULL},   {"category", 'C', NULL, NULL},
                              {"flags", 'C', NULL, NULL},    {"thread", 'I', NULL, NULL}};
  if (!allocate(columns, (const size_t[]){8, 8, 8, 4, 1, 1, 1, 4}, 8, rows)) return NULL;
  const msp_slot_columns to = {columns[0].values, columns[1].values, columns[2].values, columns[3].values,
                               columns[7].values, columns[4].values, columns[5].values, columns[6].values};
  Py_BEGIN_ALLOW_THREADS;
  msp_slots_read(slots, (size_t)rows, UINT32_MAX, to);
  Py_END_ALLOW_THREADS;
  return msp_table_give(columns, 8, rows);
}

static PyObject *py_nest(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  msp_column from[3];
  if (!take(args, count, "Lll", from)) return NULL;
  int64_t rows = from[0].count;
  msp_new_column columns[] = {{"row", 'I', NULL, NULL}, {"depth", 'S', NULL, NULL}, {"parent", 'I', NULL, NULL}};
  PyObject *result = NULL;
  if (allocate(columns, (const size_t[]){4, 2, 4}, 3, rows)) {
    uint32_t *parent = columns[2].values;
    uint8_t *valid = calloc((size_t)rows / 8 + 1, 1);
    bool done = valid != NULL;
    Py_BEGIN_ALLOW_THREADS;
    done = done &&
           msp_nest(rows, from[0].values, from[1].values, from[2].values, columns[0].values, columns[1].values, parent);
    for (int64_t i = 0; done && i < rows; ++i) valid[i >> 3] |= (uint8_t)((parent[i] != UINT32_MAX) << (i & 7));
    Py_END_ALLOW_THREADS;
    columns[2].valid = valid;
    if (done) {
      result = msp_table_give(columns, 3, rows);
    } else {
      for (int i = 0; i < 3; ++i) free(columns[i].values);
      free(valid);
      PyErr_NoMemory();
    }
  }
  release(from, 3);
  return result;
}

static PyObject *py_inside(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  msp_column from[4];
  if (!take(args, count, "IllC", from)) return NULL;
  int64_t rows = from[0].count;
  msp_new_column column = {"inside_ns", 'l', NULL, NULL};
  PyObject *result = NULL;
  if (allocate(&column, (const size_t[]){8}, 1, rows)) {
    Py_BEGIN_ALLOW_THREADS;
    msp_inside(rows, from[0].values, from[1].values, from[2].values, from[3].values, column.values);
    Py_END_ALLOW_THREADS;
    result = msp_table_give(&column, 1, rows);
  }
  release(from, 4);
  return result;
}

/* The parts of a row while they are in use. */
typedef struct {
  msp_part parts[PARTS_MOST];
  msp_column columns[PARTS_MOST];
  msp_text *texts[PARTS_MOST];
  int count;
} row_parts;

static void free_parts(row_parts *of) {
  for (int i = 0; i < of->count; ++i) {
    msp_column_release(&of->columns[i]);
    free(of->texts[i]);
  }
}

/* The bytes of texts that a list holds on to; None stands for no text. */
static bool take_texts(PyObject *list, msp_part *part, msp_text **texts) {
  Py_ssize_t count = PyList_Size(list);
  if (count < 0) return false;
  *texts = calloc((size_t)count + 1, sizeof **texts);
  if (*texts == NULL) return PyErr_NoMemory() != NULL;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *text = PyList_GetItem(list, i);
    Py_ssize_t length;
    if (text == Py_None) continue;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &length);
    if (bytes == NULL) return false;
    (*texts)[i] = (msp_text){bytes, (size_t)length};
    if ((size_t)length > part->longest) part->longest = (size_t)length;
  }
  part->texts = *texts;
  part->count = (size_t)count;
  return true;
}

/* A part is the text of each row, as bytes, or a pair: a list of texts and the column of indices, or None and a column
 * of integers, or True and a column of nanoseconds that are written as microseconds. */
static bool take_part(PyObject *object, int64_t rows, row_parts *of) {
  msp_part *part = &of->parts[of->count];
  msp_column *column = &of->columns[of->count];
  *part = (msp_part){.kind = MSP_PART_TEXT};
  *column = (msp_column){0};
  of->texts[of->count++] = NULL;
  if (PyBytes_Check(object)) {
    char *bytes;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(object, &bytes, &length) < 0) return false;
    part->text = (msp_text){bytes, (size_t)length};
    return true;
  }
  PyObject *what = PyTuple_Size(object) == 2 ? PyTuple_GetItem(object, 0) : NULL;
  if (what == NULL) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a part is bytes or a pair");
    return false;
  }
  bool choice = PyList_Check(what);
  part->kind = choice ? MSP_PART_CHOICE : what == Py_None ? MSP_PART_INTEGER : MSP_PART_MICROSECONDS;
  if (choice && !take_texts(what, part, &of->texts[of->count - 1])) return false;
  if (!msp_column_take(PyTuple_GetItem(object, 1), choice ? 'I' : 'l', column)) return false;
  if (column->count != rows) {
    PyErr_Format(PyExc_ValueError, "a column of %lld rows, not %lld", (long long)column->count, (long long)rows);
    return false;
  }
  part->values = column->values;
  part->valid = column->valid;
  part->offset = column->offset;
  return true;
}

/* Where rows go: to a file, or into memory that grows. */
typedef struct {
  char *buffer;
  size_t room, length;
  int file; /* -1: none */
} row_sink;

static bool drain(row_sink *sink) {
  for (size_t done = 0; done < sink->length;) {
    ssize_t written = write(sink->file, sink->buffer + done, sink->length - done);
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) done += (size_t)written;
  }
  sink->length = 0;
  return true;
}

/* Make room for `most` bytes more; a file gets what there is whenever the buffer, which stays in the processor's cache,
 * is full. False: errno says why. */
static bool make_room(row_sink *sink, size_t most) {
  if (sink->room - sink->length >= most) return true;
  if (sink->file >= 0 && !drain(sink)) return false;
  if (sink->room - sink->length >= most) return true;
  size_t room = sink->file >= 0 ? most : sink->room * 2 + most;
  char *larger = realloc(sink->buffer, room);
  if (larger == NULL) return false;
  sink->buffer = larger;
  sink->room = room;
  return true;
}

static bool write_rows(const row_parts *of, int64_t rows, row_sink *sink) {
  size_t each = msp_rows_most(of->parts, (size_t)of->count);
  for (int64_t row = 0; row < rows; row += BLOCK) {
    int64_t block = rows - row < BLOCK ? rows - row : BLOCK;
    if (!make_room(sink, each * (size_t)block + 1)) return false;
    sink->length += msp_rows_write(sink->buffer + sink->length, of->parts, (size_t)of->count, row, block);
  }
  return sink->file < 0 || drain(sink);
}

/* Take the parts, write the rows, and tell whether that went well; otherwise an exception is set. */
static bool rows_into(row_sink *sink, PyObject *number, PyObject *list) {
  int64_t rows = PyLong_AsLongLong(number);
  Py_ssize_t parts = PyList_Size(list);
  if ((rows == -1 || parts < 0) && PyErr_Occurred()) return false;
  if (parts > PARTS_MOST) return PyErr_Format(PyExc_ValueError, "%zd parts are too many", parts) != NULL;
  row_parts of = {.count = 0};
  bool done = true;
  for (Py_ssize_t i = 0; i < parts && done; ++i) done = take_part(PyList_GetItem(list, i), rows, &of);
  if (done) {
    int error;
    Py_BEGIN_ALLOW_THREADS;
    done = write_rows(&of, rows, sink);
    error = errno;
    Py_END_ALLOW_THREADS;
    if (!done) {
      errno = error;
      PyErr_SetFromErrno(PyExc_OSError);
    }
  }
  free_parts(&of);
  return done;
}

static PyObject *py_rows(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  if (count != 2) return PyErr_Format(PyExc_TypeError, "rows() takes 2 arguments, not %zd", count);
  row_sink sink = {.file = -1};
  bool done = rows_into(&sink, args[0], args[1]);
  PyObject *result = done ? PyBytes_FromStringAndSize(sink.buffer, (Py_ssize_t)sink.length) : NULL;
  free(sink.buffer);
  return result;
}

static PyObject *py_write_rows(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  if (count != 3) return PyErr_Format(PyExc_TypeError, "write_rows() takes 3 arguments, not %zd", count);
  long file = PyLong_AsLong(args[0]);
  if (file == -1 && PyErr_Occurred()) return NULL;
  row_sink sink = {.file = (int)file};
  bool done = rows_into(&sink, args[1], args[2]);
  free(sink.buffer);
  if (!done) return NULL;
  Py_RETURN_NONE;
}

#define FAST(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL

static PyMethodDef functions[] = {
    {"slots", py_slots, METH_O, "Decode slots: slots(bytes) -> table."},
    {"nest", FAST(py_nest), "Order and nest spans: nest(lane, start_ns, end_ns) -> table of row, depth, parent."},
    {"inside", FAST(py_inside), "Sum up what is inside of spans: inside(parent, start_ns, end_ns, taken) -> table."},
    {"rows", FAST(py_rows), "Return rows: rows(count, [part, ...]) -> bytes."},
    {"write_rows", FAST(py_write_rows), "Write rows to a file: write_rows(descriptor, count, [part, ...])."},
    {"track_events", FAST(msp_py_track_events), "Write events of Perfetto's trace; see perfetto_module.h."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "ms_profiler._columns", "Work on columns of Polars.", -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__columns(void) { return PyModule_Create(&definition); }
