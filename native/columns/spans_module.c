#include "spans_module.h"

#include <stdlib.h>
#include <string.h>

#include "arrow.h"
#include "calls.h"
#include "device_records.h"
#include "file_format.h"
#include "slots.h"
#include "sums.h"

/* What to read of a store, with the Python objects and columns that this selection uses. */
typedef struct {
  msp_wanted wanted;
  msp_column columns[4];
  int taken;
} wanted_call;

static bool take_wanted(PyObject *tuple, wanted_call *of) {
  PyObject *columns[4], *range;
  unsigned long lost;
  long long last, window_start, window_end, from, until;
  unsigned long long earliest, latest;
  int fine;
  if (!PyArg_ParseTuple(tuple, "OkOOOO", &columns[0], &lost, &columns[1], &columns[2], &columns[3], &range))
    return false;
  if (!PyArg_ParseTuple(range, "LLLLLpKK", &last, &window_start, &window_end, &from, &until, &fine, &earliest, &latest))
    return false;
  for (; of->taken < 4; ++of->taken) {
    if (!msp_column_take(columns[of->taken], "Illg"[of->taken], &of->columns[of->taken])) return false;
  }
  int64_t knots = of->columns[1].count;
  if (knots == 0 || of->columns[2].count != knots || of->columns[3].count != knots) {
    return PyErr_Format(PyExc_ValueError, "a clock needs a knot, and three columns of them") != NULL;
  }
  of->wanted = (msp_wanted){of->columns[0].values,
                            (size_t)of->columns[0].count,
                            (uint32_t)lost,
                            {of->columns[1].values, of->columns[2].values, of->columns[3].values, knots},
                            last,
                            window_start,
                            window_end,
                            from,
                            until,
                            fine != 0,
                            earliest,
                            latest};
  return true;
}

/* The slots (records) in one bytes object of a Python list. The list keeps the bytes alive. */
typedef struct {
  const char *slots;
  size_t count;
} piece;

typedef struct {
  piece *pieces;
  Py_ssize_t count;
  size_t slots; /* slots of all pieces */
} pieces_call;

static bool take_pieces(PyObject *list, pieces_call *of) {
  of->count = PyList_Size(list);
  if (of->count < 0) return false;
  of->pieces = calloc((size_t)of->count + 1, sizeof *of->pieces);
  if (of->pieces == NULL) return PyErr_NoMemory() != NULL;
  for (Py_ssize_t i = 0; i < of->count; ++i) {
    char *bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(PyList_GetItem(list, i), &bytes, &size) < 0) return false;
    of->pieces[i] = (piece){bytes, (size_t)size / MSP_SLOT_SIZE};
    of->slots += of->pieces[i].count;
  }
  return true;
}

static bool take_call(PyObject *const *args, wanted_call *wanted, pieces_call *pieces) {
  if (take_pieces(args[0], pieces) && take_wanted(args[1], wanted)) return true;
  msp_columns_release(wanted->columns, wanted->taken);
  free(pieces->pieces);
  return false;
}

PyObject *msp_py_spans(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  if (count != 2) return PyErr_Format(PyExc_TypeError, "spans() takes 2 arguments, not %zd", count);
  wanted_call wanted = {.taken = 0};
  pieces_call pieces = {.count = 0};
  if (!take_call(args, &wanted, &pieces)) return NULL;
  msp_new_column columns[] = {{"thread", 'I', NULL, NULL},     {"name", 'I', NULL, NULL},
                              {"category", 'C', NULL, NULL},   {"flags", 'C', NULL, NULL},
                              {"unfinished", 'C', NULL, NULL}, {"start_ns", 'l', NULL, NULL},
                              {"end_ns", 'l', NULL, NULL},     {"arg", 'L', NULL, NULL}};
  PyObject *result = NULL;
  if (msp_columns_make(columns, 8, (int64_t)pieces.slots)) {
    const msp_span_columns to = {.thread = columns[0].values,
                                 .name = columns[1].values,
                                 .category = columns[2].values,
                                 .flags = columns[3].values,
                                 .unfinished = columns[4].values,
                                 .start_ns = columns[5].values,
                                 .end_ns = columns[6].values,
                                 .arg = columns[7].values};
    size_t row = 0;
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t i = 0; i < pieces.count; ++i) {
      uint32_t thread = UINT32_MAX;
      row = msp_spans_read(pieces.pieces[i].slots, pieces.pieces[i].count, &thread, &wanted.wanted, to, row);
    }
    Py_END_ALLOW_THREADS;
    result = msp_table_give(columns, 8, (int64_t)row);
  }
  msp_columns_release(wanted.columns, wanted.taken);
  free(pieces.pieces);
  return result;
}

/* Decode all slots except fine-grained spans. For each piece, `fine` gets a row with the sums of its fine-grained
 * spans. */
static void read_coarse(const pieces_call *pieces, const msp_wanted *wanted, unsigned long long every,
                        msp_slot_columns to, msp_new_column *fine, int64_t *starts, size_t *rows, size_t *start_count) {
  for (Py_ssize_t i = 0; i < pieces->count; ++i) {
    uint32_t thread = UINT32_MAX;
    msp_fine left = {0, 0, INT64_MAX, INT64_MIN, INT64_MIN};
    *rows = msp_slots_coarse(pieces->pieces[i].slots, pieces->pieces[i].count, &thread, wanted, to, *rows, &left, every,
                             starts, start_count);
    const int64_t fields[] = {(int64_t)left.count, (int64_t)left.lost, left.first_ns, left.last_start_ns, left.last_ns};
    for (int field = 0; field < 5; ++field) ((int64_t *)fine[field].values)[i] = fields[field];
    ((uint32_t *)fine[5].values)[i] = thread;
  }
}

PyObject *msp_py_coarse(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  if (count != 3) return PyErr_Format(PyExc_TypeError, "coarse() takes 3 arguments, not %zd", count);
  unsigned long long every = PyLong_AsUnsignedLongLong(args[2]);
  if (every == 0 || PyErr_Occurred()) return PyErr_Format(PyExc_ValueError, "the argument `every` has to be positive");
  wanted_call wanted = {.taken = 0};
  pieces_call pieces = {.count = 0};
  if (!take_call(args, &wanted, &pieces)) return NULL;
  /* columns of three tables: spans, then `fine`, then `starts` */
  msp_new_column columns[] = {
      {"start_ns", 'l', NULL, NULL}, {"end_ns", 'l', NULL, NULL},   {"arg", 'L', NULL, NULL},
      {"id", 'I', NULL, NULL},       {"kind", 'C', NULL, NULL},     {"category", 'C', NULL, NULL},
      {"flags", 'C', NULL, NULL},    {"thread", 'I', NULL, NULL},   {"count", 'l', NULL, NULL},
      {"lost", 'l', NULL, NULL},     {"first_ns", 'l', NULL, NULL}, {"last_start_ns", 'l', NULL, NULL},
      {"last_ns", 'l', NULL, NULL},  {"thread", 'I', NULL, NULL},   {"start_ns", 'l', NULL, NULL}};
  msp_new_column *fine = columns + 8, *starts = columns + 14;
  int64_t samples = 0;
  for (Py_ssize_t i = 0; i < pieces.count; ++i) samples += (int64_t)(pieces.pieces[i].count / every) + 1;
  bool made = msp_columns_make(columns, 8, (int64_t)pieces.slots) && msp_columns_make(fine, 6, pieces.count) &&
              msp_columns_make(starts, 1, samples);
  PyObject *result = NULL;
  if (made) {
    const msp_slot_columns to = {columns[0].values, columns[1].values, columns[2].values, columns[3].values,
                                 columns[7].values, columns[4].values, columns[5].values, columns[6].values};
    size_t rows = 0, start_count = 0;
    Py_BEGIN_ALLOW_THREADS;
    read_coarse(&pieces, &wanted.wanted, every, to, fine, starts->values, &rows, &start_count);
    Py_END_ALLOW_THREADS;
    PyObject *tables[] = {msp_table_give(columns, 8, (int64_t)rows), msp_table_give(fine, 6, pieces.count),
                          msp_table_give(starts, 1, (int64_t)start_count)};
    if (tables[0] != NULL && tables[1] != NULL && tables[2] != NULL) {
      result = PyTuple_Pack(3, tables[0], tables[1], tables[2]);
    }
    for (int i = 0; i < 3; ++i) Py_XDECREF(tables[i]);
  } else {
    for (size_t i = 0; i < sizeof columns / sizeof *columns; ++i) free(columns[i].values);
  }
  msp_columns_release(wanted.columns, wanted.taken);
  free(pieces.pieces);
  return result;
}

/* Return the columns for the records of a device, in the order of their names in analysis/columns/slots.py. */
static msp_device_rows rows_of(const msp_new_column *columns) {
  return (msp_device_rows){.type = columns[0].values,
                           .name = columns[1].values,
                           .detail = columns[2].values,
                           .correlation = columns[3].values,
                           .device = columns[4].values,
                           .stream = columns[5].values,
                           .context = columns[6].values,
                           .graph = columns[7].values,
                           .amount = columns[8].values,
                           .start_ns = columns[9].values,
                           .end_ns = columns[10].values,
                           .source = columns[11].values,
                           .native_tid = columns[12].values};
}

/* Return a Python list with one table for each column, so that the consumer can free one column after the other. */
static PyObject *give_apart(msp_new_column *columns, int count, int64_t rows) {
  PyObject *list = PyList_New(0);
  for (int i = 0; i < count; ++i) {
    PyObject *table = msp_table_give(&columns[i], 1, rows);
    if (list != NULL && (table == NULL || PyList_Append(list, table) != 0)) Py_CLEAR(list);
    Py_XDECREF(table);
  }
  return list;
}

PyObject *msp_py_devices(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  if (count != 2) return PyErr_Format(PyExc_TypeError, "devices() takes 2 arguments, not %zd", count);
  wanted_call wanted = {.taken = 0};
  pieces_call pieces = {.count = 0};
  if (!take_call(args, &wanted, &pieces)) return NULL;
  enum { CALL = 5, RAN = 12, OTHER = 13 };
  msp_new_column of_calls[CALL] = {{"name", 'I', NULL, NULL},
                                   {"correlation", 'I', NULL, NULL},
                                   {"native_tid", 'I', NULL, NULL},
                                   {"start_ns", 'l', NULL, NULL},
                                   {"end_ns", 'l', NULL, NULL}};
  msp_new_column of_others[OTHER] = {
      {"type", 'C', NULL, NULL},        {"name", 'I', NULL, NULL},   {"detail", 'I', NULL, NULL},
      {"correlation", 'I', NULL, NULL}, {"device", 'I', NULL, NULL}, {"stream", 'I', NULL, NULL},
      {"context", 'I', NULL, NULL},     {"graph", 'I', NULL, NULL},  {"amount", 'L', NULL, NULL},
      {"start_ns", 'l', NULL, NULL},    {"end_ns", 'l', NULL, NULL}, {"source", 'C', NULL, NULL},
      {"native_tid", 'I', NULL, NULL}};
  /* a task (for example a kernel) has no thread of its own, so it has no column `native_tid` */
  msp_new_column of_ran[OTHER];
  memcpy(of_ran, of_others, sizeof of_ran);
  /* count the records before reading them, so that the columns of a long run have no unused room */
  msp_device_counts room = {0, 0, 0};
  for (Py_ssize_t i = 0; i < pieces.count; ++i) {
    msp_device_count(pieces.pieces[i].slots, pieces.pieces[i].count, &room);
  }
  PyObject *result = NULL;
  if (msp_columns_make(of_calls, CALL, (int64_t)room.calls) && msp_columns_make(of_ran, RAN, (int64_t)room.ran) &&
      msp_columns_make(of_others, OTHER, (int64_t)room.others)) {
    const msp_device_calls calls = {.name = of_calls[0].values,
                                    .correlation = of_calls[1].values,
                                    .native_tid = of_calls[2].values,
                                    .start_ns = of_calls[3].values,
                                    .end_ns = of_calls[4].values};
    const msp_device_rows ran = rows_of(of_ran), others = rows_of(of_others);
    msp_device_counts at = {0, 0, 0};
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t i = 0; i < pieces.count; ++i) {
      msp_device_read(pieces.pieces[i].slots, pieces.pieces[i].count, &wanted.wanted, &calls, &ran, &others, &at);
    }
    Py_END_ALLOW_THREADS;
    PyObject *tables[] = {give_apart(of_calls, CALL, (int64_t)at.calls), give_apart(of_ran, RAN, (int64_t)at.ran),
                          give_apart(of_others, OTHER, (int64_t)at.others)};
    if (tables[0] != NULL && tables[1] != NULL && tables[2] != NULL) {
      result = PyTuple_Pack(3, tables[0], tables[1], tables[2]);
    }
    for (int i = 0; i < 3; ++i) Py_XDECREF(tables[i]);
  } else {
    for (int i = 0; i < CALL; ++i) free(of_calls[i].values);
    for (int i = 0; i < OTHER; ++i) {
      free(of_ran[i].values);
      free(of_others[i].values);
    }
  }
  msp_columns_release(wanted.columns, wanted.taken);
  free(pieces.pieces);
  return result;
}

PyObject *msp_py_order(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  msp_column from[3];
  if (!msp_columns_take(args, count, "Lll", from)) return NULL;
  msp_new_column column = {"row", 'I', NULL, NULL};
  PyObject *result = NULL;
  if (msp_columns_make(&column, 1, from[0].count)) {
    bool done;
    Py_BEGIN_ALLOW_THREADS;
    done = msp_order(from[0].count, &(msp_spans){from[0].values, from[1].values, from[2].values}, column.values);
    Py_END_ALLOW_THREADS;
    result = msp_table_finish(&column, 1, from[0].count, done);
  }
  msp_columns_release(from, 3);
  return result;
}

PyObject *msp_py_calls(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  msp_column from[5];
  if (!msp_columns_take(args, count, "LllCI", from)) return NULL;
  int64_t rows = from[0].count;
  msp_new_column columns[] = {{"module", 'I', NULL, NULL}, {"inner", 'C', NULL, NULL}};
  PyObject *result = NULL;
  if (msp_columns_make(columns, 2, rows)) {
    const msp_called of = {{from[0].values, from[1].values, from[2].values}, from[3].values, from[4].values};
    bool done;
    Py_BEGIN_ALLOW_THREADS;
    done =
        msp_calls(rows, &of, columns[0].values, columns[1].values) && msp_column_valid(&columns[0], rows, MSP_NO_NAME);
    Py_END_ALLOW_THREADS;
    result = msp_table_finish(columns, 2, rows, done);
  }
  msp_columns_release(from, 5);
  return result;
}

/* Return sums as a table for Python, and free the sums. */
static PyObject *give_sums(msp_sums *sums) {
  msp_new_column columns[] = {{"key", 'L', NULL, NULL},     {"count", 'L', NULL, NULL},  {"total_ns", 'l', NULL, NULL},
                              {"self_ns", 'l', NULL, NULL}, {"min_ns", 'l', NULL, NULL}, {"max_ns", 'l', NULL, NULL},
                              {"low", 'L', NULL, NULL},     {"high", 'L', NULL, NULL}};
  enum { FIELDS = sizeof columns / sizeof *columns };
  PyObject *result = NULL;
  if (msp_columns_make(columns, FIELDS, (int64_t)sums->count)) {
    for (size_t i = 0; i < sums->count; ++i) { /* eight fields of eight bytes, in the order of the columns */
      uint64_t fields[FIELDS];
      _Static_assert(sizeof fields == sizeof *sums->sums, "a column a field");
      memcpy(fields, &sums->sums[i], sizeof fields);
      for (int field = 0; field < FIELDS; ++field) ((uint64_t *)columns[field].values)[i] = fields[field];
    }
    result = msp_table_give(columns, FIELDS, (int64_t)sums->count);
  }
  free(sums->sums);
  return result;
}

PyObject *msp_py_sums(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  msp_column from[5];
  if (!msp_columns_take(args, count, "LllLC", from)) return NULL;
  msp_new_column open = {"open", 'C', NULL, NULL};
  PyObject *result = NULL, *table = NULL;
  if (msp_columns_make(&open, 1, from[0].count)) {
    const msp_spans of = {from[0].values, from[1].values, from[2].values};
    msp_sums sums;
    bool done;
    Py_BEGIN_ALLOW_THREADS;
    done = msp_sum_up(from[0].count, &of, from[3].values, from[4].values, open.values, &sums);
    Py_END_ALLOW_THREADS;
    if (done) {
      table = give_sums(&sums);
      PyObject *mask = msp_table_give(&open, 1, from[0].count);
      if (table != NULL && mask != NULL) result = PyTuple_Pack(2, table, mask);
      Py_XDECREF(mask);
    } else {
      free(sums.sums);
      free(open.values);
      PyErr_NoMemory();
    }
  }
  Py_XDECREF(table);
  msp_columns_release(from, 5);
  return result;
}
