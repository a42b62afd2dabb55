/* The Python module `ms_profiler._columns`: C functions with which the analysis computes on every row of Polars'
 * columns.
 *
 * This module is separate from the extension that records, and a job never loads it. Its functions release the GIL.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arrow.h"
#include "lookup_module.h"
#include "nesting.h"
#include "perfetto_module.h"
#include "rows.h"
#include "spans_module.h"

enum { BLOCK = 1024, MMAPPED_FROM = 32 << 20, TRIMMED_FROM = 64 << 20 };

static PyObject *py_nest(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  msp_column from[3];
  if (!msp_columns_take(args, count, "Lll", from)) return NULL;
  int64_t rows = from[0].count;
  msp_new_column columns[] = {{"row", 'I', NULL, NULL}, {"depth", 'S', NULL, NULL}, {"parent", 'I', NULL, NULL}};
  PyObject *result = NULL;
  if (msp_columns_make(columns, 3, rows)) {
    bool done;
    Py_BEGIN_ALLOW_THREADS;
    done = msp_nest(rows, &(msp_spans){from[0].values, from[1].values, from[2].values}, columns[0].values,
                    columns[1].values, columns[2].values) &&
           msp_column_valid(&columns[2], rows, UINT32_MAX);
    Py_END_ALLOW_THREADS;
    result = msp_table_finish(columns, 3, rows, done);
  }
  msp_columns_release(from, 3);
  return result;
}

static PyObject *py_inside(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  msp_column from[4];
  if (!msp_columns_take(args, count, "IllC", from)) return NULL;
  int64_t rows = from[0].count;
  msp_new_column column = {"inside_ns", 'l', NULL, NULL};
  PyObject *result = NULL;
  if (msp_columns_make(&column, 1, rows)) {
    Py_BEGIN_ALLOW_THREADS;
    msp_inside(rows, from[0].values, from[1].values, from[2].values, from[3].values, column.values);
    Py_END_ALLOW_THREADS;
    result = msp_table_give(&column, 1, rows);
  }
  msp_columns_release(from, 4);
  return result;
}

/* The parts that make up each line of text, with the columns and the texts that they use. */
typedef struct {
  msp_part *parts;
  msp_column *columns;
  void **texts; /* for each part, the memory of its texts and of their bytes, with MSP_ROWS_SLACK more bytes */
  int count;
} row_parts;

static void free_parts(row_parts *of) {
  for (int i = 0; i < of->count; ++i) {
    msp_column_release(&of->columns[i]);
    free(of->texts[i]);
  }
  free(of->parts);
  free(of->columns);
  free(of->texts);
}

/* Take the texts of a Python list, with copies of their bytes. None in the list stands for no text. */
static bool take_texts(PyObject *list, msp_part *part, void **memory) {
  Py_ssize_t count = PyList_Size(list), length;
  if (count < 0) return false;
  size_t size = (size_t)count * sizeof(msp_text) + MSP_ROWS_SLACK;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *text = PyList_GetItem(list, i);
    if (text == Py_None) continue;
    if (PyUnicode_AsUTF8AndSize(text, &length) == NULL) return false;
    size += (size_t)length;
  }
  msp_text *texts = *memory = calloc(size, 1);
  if (texts == NULL) return PyErr_NoMemory() != NULL;
  char *to = (char *)(texts + count);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *text = PyList_GetItem(list, i);
    const char *bytes = text == Py_None ? NULL : PyUnicode_AsUTF8AndSize(text, &length); /* kept since the first loop */
    if (bytes == NULL) continue;
    memcpy(to, bytes, (size_t)length);
    texts[i] = (msp_text){to, (size_t)length};
    if ((size_t)length > part->longest) part->longest = (size_t)length;
    to += length;
  }
  part->texts = texts;
  part->count = (size_t)count;
  return true;
}

/* Take one part of the lines from Python. It is a text that is the same in each line (bytes), or one of three pairs: a
 * list of texts and a column of indices into this list; None and a column of integers; True and a column of
 * nanoseconds, which are written as microseconds. */
static bool take_part(PyObject *object, int64_t rows, row_parts *of) {
  msp_part *part = &of->parts[of->count];
  msp_column *column = &of->columns[of->count];
  *part = (msp_part){.kind = MSP_PART_TEXT};
  *column = (msp_column){0};
  void **memory = &of->texts[of->count++];
  *memory = NULL;
  if (PyBytes_Check(object)) {
    char *bytes;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(object, &bytes, &length) < 0) return false;
    *memory = calloc((size_t)length + MSP_ROWS_SLACK, 1);
    if (*memory == NULL) return PyErr_NoMemory() != NULL;
    part->text = (msp_text){memcpy(*memory, bytes, (size_t)length), (size_t)length};
    return true;
  }
  PyObject *what = PyTuple_Size(object) == 2 ? PyTuple_GetItem(object, 0) : NULL;
  if (what == NULL) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a part is bytes or a pair");
    return false;
  }
  bool choice = PyList_Check(what);
  part->kind = choice ? MSP_PART_CHOICE : what == Py_None ? MSP_PART_INTEGER : MSP_PART_MICROSECONDS;
  if (choice && !take_texts(what, part, memory)) return false;
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

/* The destination of written lines: a file, or a buffer that grows. */
typedef struct {
  char *buffer;
  size_t room, length;
  int file;     /* -1: none */
  int64_t left; /* bytes that may go to the file */
} row_sink;

static bool drain(row_sink *sink) {
  if ((int64_t)sink->length > sink->left) {
    errno = EOVERFLOW; /* an error with which write(2) never fails */
    return false;
  }
  sink->left -= (int64_t)sink->length;
  for (size_t done = 0; done < sink->length;) {
    ssize_t written = write(sink->file, sink->buffer + done, sink->length - done);
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) done += (size_t)written;
  }
  sink->length = 0;
  return true;
}

/* Make room in the buffer for `most` more bytes. With a file, write the full buffer to it first, so that the buffer
 * stays small enough for the processor's cache. Returns false on failure, with the reason in errno. */
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
    if (!make_room(sink, each * (size_t)block + MSP_ROWS_SLACK)) return false;
    sink->length += msp_rows_write(sink->buffer + sink->length, of->parts, (size_t)of->count, row, block);
  }
  return sink->file < 0 || drain(sink);
}

/* Take the parts of the lines from Python, and write all lines. Returns false with an exception set on failure. */
static bool rows_into(row_sink *sink, PyObject *number, PyObject *list) {
  int64_t rows = PyLong_AsLongLong(number);
  Py_ssize_t parts = PyList_Size(list);
  if ((rows == -1 || parts < 0) && PyErr_Occurred()) return false;
  size_t room = (size_t)parts + 1; /* calloc may return NULL for no bytes */
  row_parts of = {
      .parts = calloc(room, sizeof *of.parts),
      .columns = calloc(room, sizeof *of.columns),
      .texts = calloc(room, sizeof *of.texts),
  };
  bool done = of.parts != NULL && of.columns != NULL && of.texts != NULL;
  if (!done) PyErr_NoMemory();
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
  if (count != 4) return PyErr_Format(PyExc_TypeError, "write_rows() takes 4 arguments, not %zd", count);
  long file = PyLong_AsLong(args[0]);
  if (file == -1 && PyErr_Occurred()) return NULL;
  int64_t left = PyLong_AsLongLong(args[3]);
  if (left == -1 && PyErr_Occurred()) return NULL;
  row_sink sink = {.file = (int)file, .left = left};
  bool done = rows_into(&sink, args[1], args[2]);
  free(sink.buffer);
  if (!done) return NULL;
  Py_RETURN_NONE;
}

/* Return free memory to the system. The C library keeps free memory between blocks in use until this call, whatever its
 * thresholds (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD) are. */
static PyObject *py_trim(PyObject *self, PyObject *unused) {
  (void)self;
  (void)unused;
#ifdef M_MMAP_THRESHOLD
  malloc_trim(0);
#endif
  Py_RETURN_NONE;
}

#define FAST(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL

static PyMethodDef functions[] = {
    {"nest", FAST(py_nest), "Order and nest spans: nest(lane, start_ns, end_ns) -> table of row, depth, parent."},
    {"coarse", FAST(msp_py_coarse), "Decode slots, without fine-grained spans; see spans_module.h."},
    {"spans", FAST(msp_py_spans), "Decode spans; see spans_module.h."},
    {"devices", FAST(msp_py_devices), "Decode the records of a device; see spans_module.h."},
    {"order", FAST(msp_py_order), "Order spans: order(lane, start_ns, end_ns) -> table of row."},
    {"locate", FAST(msp_py_locate), "Find the intervals that contain times; see lookup_module.h."},
    {"find", FAST(msp_py_find), "Find pairs among known pairs; see lookup_module.h."},
    {"latest", FAST(msp_py_latest), "Find the latest row of a key before a time; see lookup_module.h."},
    {"calls", FAST(msp_py_calls), "Find the spans around operators; see spans_module.h."},
    {"sums", FAST(msp_py_sums), "Sum up spans; see spans_module.h."},
    {"inside", FAST(py_inside), "Sum up the time inside spans: inside(parent, start_ns, end_ns, taken) -> table."},
    {"rows", FAST(py_rows), "Return rows: rows(count, [part, ...]) -> bytes."},
    {"write_rows", FAST(py_write_rows),
     "Write rows to a file: write_rows(descriptor, count, [part, ...], most bytes); EOVERFLOW beyond them."},
    {"trim", py_trim, METH_NOARGS, "Return free memory to the system."},
    {"track_events", FAST(msp_py_track_events), "Write events of Perfetto's trace; see perfetto_module.h."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "ms_profiler._columns", "Work on columns of Polars.", -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__columns(void) {
#ifdef M_MMAP_THRESHOLD
  /* Set the C library's thresholds for returning freed memory to the system. With these values, it returns the memory
   * of columns with tens of millions of rows. By default, it would raise its threshold at the first release, and keep
   * gigabytes of a long run. It keeps the memory of smaller columns and uses it again: if it returned all memory, page
   * faults would take a tenth of the analysis. With these thresholds, ten million events take 300 thousand page faults
   * and 600 MB; fifty million events take 917 MB. With thresholds of 4 MB and 16 MB, ten million events take 640
   * thousand page faults and 500 MB. */
  mallopt(M_MMAP_THRESHOLD, MMAPPED_FROM);
  mallopt(M_TRIM_THRESHOLD, TRIMMED_FROM);
#endif
  return PyModule_Create(&definition);
}
