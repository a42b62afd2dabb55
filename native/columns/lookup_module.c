#include "lookup_module.h"

#include "arrow.h"
#include "lookup.h"

PyObject *msp_py_locate(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  msp_column times, between[2];
  if (count < 1 || !msp_columns_take(args, 1, "l", &times)) {
    return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "3 columns are needed, not %zd", count);
  }
  msp_new_column column = {"row", 'I', NULL, NULL};
  PyObject *result = NULL;
  if (msp_columns_take(args + 1, count - 1, "ll", between)) {
    if (msp_columns_make(&column, 1, times.count)) {
      const int64_t *values = times.values;
      uint32_t *rows = column.values;
      int64_t near = -1;
      bool done;
      Py_BEGIN_ALLOW_THREADS;
      for (int64_t i = 0; i < times.count; ++i) {
        rows[i] = msp_column_has(&times, i)
                      ? msp_locate(values[i], between[0].values, between[1].values, between[0].count, &near)
                      : MSP_NOWHERE;
      }
      done = msp_column_valid(&column, times.count, MSP_NOWHERE);
      Py_END_ALLOW_THREADS;
      result = msp_table_finish(&column, 1, times.count, done);
    }
    msp_columns_release(between, 2);
  }
  msp_column_release(&times);
  return result;
}

/* Look up the rows of two columns in a table of known rows. Find an equal pair, or with `latest`, the latest row with
 * the key. `types` has Arrow's letters for the types of both columns. */
static PyObject *look_up(PyObject *const *args, Py_ssize_t count, const char *types, bool latest) {
  msp_column asked[2], known[2];
  if (count < 2) return PyErr_Format(PyExc_TypeError, "4 columns are needed, not %zd", count);
  if (!msp_columns_take(args, 2, types, asked)) return NULL;
  msp_new_column column = {"row", 'I', NULL, NULL};
  PyObject *result = NULL;
  if (msp_columns_take(args + 2, count - 2, types, known)) {
    int64_t rows = asked[0].count, of = known[0].count;
    if (msp_columns_make(&column, 1, rows)) {
      bool done;
      Py_BEGIN_ALLOW_THREADS;
      if (latest) {
        done = msp_latest(rows, asked[0].values, asked[1].values, of, known[0].values, known[1].values, column.values);
      } else {
        done = msp_find(rows, asked[0].values, asked[1].values, of, known[0].values, known[1].values, column.values);
      }
      done = done && msp_column_valid(&column, rows, MSP_NOWHERE);
      Py_END_ALLOW_THREADS;
      result = msp_table_finish(&column, 1, rows, done);
    }
    msp_columns_release(known, 2);
  }
  msp_columns_release(asked, 2);
  return result;
}

PyObject *msp_py_find(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  return look_up(args, count, "II", false);
}

PyObject *msp_py_latest(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  return look_up(args, count, "Il", true);
}
