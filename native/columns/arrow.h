/* Columns to and from Polars: the Arrow C data interface (https://arrow.apache.org/docs/format/CDataInterface.html), as
 * far as it is used, handed over in Python's capsules. Both sides look at the same memory; nothing is copied.
 */
#ifndef MSP_ARROW_H
#define MSP_ARROW_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* A column that Polars owns. */
typedef struct {
  const void *values;   /* the first of its rows */
  const uint8_t *valid; /* a bit a row, from `offset`; NULL: all are */
  int64_t offset;       /* of the first row in `valid` */
  int64_t count;        /* rows */
  void *array;          /* to be released */
} msp_column;

/* Take a column from what `Series.__arrow_c_stream__()` returned; it has to be in one piece.
 *
 * `format` is Arrow's letter for the type: 'l' int64, 'L' uint64, 'g' double, 'I' uint32, 'S' uint16, 'C' uint8. False:
 * an exception is set, and there is nothing to release. */
bool msp_column_take(PyObject *capsule, char format, msp_column *column);
void msp_column_release(msp_column *column);

/* Take columns of the same length from the arguments of a function: `formats` has a letter for each. */
bool msp_columns_take(PyObject *const *args, Py_ssize_t count, const char *formats, msp_column *columns);
void msp_columns_release(msp_column *columns, int count);

static inline bool msp_column_has(const msp_column *column, int64_t row) {
  if (column->valid == NULL) return true;
  int64_t bit = column->offset + row;
  return column->valid[bit >> 3] >> (bit & 7) & 1;
}

/* A column that is ours, until Polars has it. */
typedef struct {
  const char *name;
  char format;
  void *values;   /* from malloc */
  uint8_t *valid; /* from malloc, or NULL: all rows are */
} msp_new_column;

/* Make the memory of new columns, zero and at least one row each. False: an exception is set, and none is held. */
bool msp_columns_make(msp_new_column *columns, int count, int64_t rows);

/* Make the rows null, of four or eight bytes each, that hold `missing`. False: there is no memory. */
bool msp_column_valid(msp_new_column *column, int64_t rows, uint64_t missing);

/* Return the pair of capsules that `__arrow_c_array__` has to return: one struct array with these columns, whose memory
 * goes along. NULL: an exception is set, and the memory has been freed. */
PyObject *msp_table_give(msp_new_column *columns, int count, int64_t rows);

/* As `msp_table_give` where the columns are `done`; otherwise there was no memory, and theirs is freed. */
PyObject *msp_table_finish(msp_new_column *columns, int count, int64_t rows, bool done);

#endif
