/* Exchange columns with Polars, in Python capsules. This code implements the parts of the Arrow C data interface that
 * are needed (https://arrow.apache.org/docs/format/CDataInterface.html). Both sides use the same memory; nothing is
 * copied.
 */
#ifndef MSP_ARROW_H
#define MSP_ARROW_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* A column that Polars owns. */
typedef struct {
  const void *values;   /* value of the first row */
  const uint8_t *valid; /* one bit for each row: whether it has a value; NULL: all have */
  int64_t offset;       /* position of the first row's bit in `valid` */
  int64_t count;        /* number of rows */
  void *array;          /* Arrow's array, which msp_column_release releases */
} msp_column;

/* Take a column of Polars from the result of `Series.__arrow_c_stream__()`. The column must be in one piece.
 *
 * `format` is Arrow's letter for the type: 'l' int64, 'L' uint64, 'g' double, 'I' uint32, 'S' uint16, 'C' uint8.
 * Returns false with an exception set; then there is nothing to release. */
bool msp_column_take(PyObject *capsule, char format, msp_column *column);
void msp_column_release(msp_column *column);

/* Take columns of equal length from the arguments of a function. `formats` has Arrow's letter for the type of each
 * column. */
bool msp_columns_take(PyObject *const *args, Py_ssize_t count, const char *formats, msp_column *columns);
void msp_columns_release(msp_column *columns, int count);

static inline bool msp_column_has(const msp_column *column, int64_t row) {
  if (column->valid == NULL) return true;
  int64_t bit = column->offset + row;
  return column->valid[bit >> 3] >> (bit & 7) & 1;
}

/* A new column; msp_table_give passes its memory to Polars. */
typedef struct {
  const char *name;
  char format;
  void *values;   /* from malloc */
  uint8_t *valid; /* from malloc; NULL: all rows have a value */
} msp_new_column;

/* Allocate the memory of new columns, filled with zeros. Returns false with an exception set; then no memory is
 * allocated. */
bool msp_columns_make(msp_new_column *columns, int count, int64_t rows);

/* In a new column, turn each row with the value `missing` into null. A value has four or eight bytes. Returns false if
 * there is no memory. */
bool msp_column_valid(msp_new_column *column, int64_t rows, uint64_t missing);

/* Pass columns to Python as a table: return the pair of capsules that `__arrow_c_array__` must return, with a struct
 * array. The capsules own the memory of the columns. On failure, return NULL with an exception set, and free the
 * memory. */
PyObject *msp_table_give(msp_new_column *columns, int count, int64_t rows);

/* Finish a computation. If `done`, return the result of `msp_table_give`. If not, there was not enough memory for the
 * computation: free the columns, set the exception, and return NULL. */
PyObject *msp_table_finish(msp_new_column *columns, int count, int64_t rows, bool done);

#endif
