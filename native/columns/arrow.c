#include "arrow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The layouts of the Arrow C data interface. */

struct schema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  struct schema **children, *dictionary;
  void (*release)(struct schema *);
  void *private_data;
};

struct array {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct array **children, *dictionary;
  void (*release)(struct array *);
  void *private_data;
};

struct stream {
  int (*get_schema)(struct stream *, struct schema *);
  int (*get_next)(struct stream *, struct array *);
  const char *(*get_last_error)(struct stream *);
  void (*release)(struct stream *);
  void *private_data;
};

static size_t width(char format) {
  switch (format) {
    case 'l':
    case 'L':
    case 'g':
      return 8;
    case 'I':
      return 4;
    case 'S':
      return 2;
    default:
      return 1;
  }
}

bool msp_column_take(PyObject *capsule, char format, msp_column *column) {
  struct stream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
  if (stream == NULL) return false;
  struct schema schema = {0};
  if (stream->release == NULL || stream->get_schema(stream, &schema) != 0) {
    PyErr_SetString(PyExc_ValueError, "a column was handed over twice, or cannot be read");
    return false;
  }
  bool same = schema.format[0] == format && schema.format[1] == '\0';
  if (!same) PyErr_Format(PyExc_TypeError, "a column of type %s, not %c", schema.format, format);
  schema.release(&schema);
  if (!same) return false;
  struct array *array = calloc(1, sizeof *array);
  struct array more = {0};
  if (array == NULL) return PyErr_NoMemory() != NULL;
  if (stream->get_next(stream, array) != 0 || (array->release != NULL && stream->get_next(stream, &more) != 0)) {
    PyErr_SetString(PyExc_ValueError, "a column cannot be read");
  } else if (more.release != NULL) {
    PyErr_SetString(PyExc_ValueError, "a column in several pieces");
    more.release(&more);
  } else {
    *column = (msp_column){.array = array};
    if (array->release == NULL) return true; /* a column without rows has no array */
    column->count = array->length;
    column->offset = array->offset;
    column->valid = array->null_count == 0 ? NULL : array->buffers[0];
    column->values = (const char *)array->buffers[1] + (size_t)array->offset * width(format);
    return true;
  }
  if (array->release != NULL) array->release(array);
  free(array);
  return false;
}

void msp_column_release(msp_column *column) {
  struct array *array = column->array;
  if (array == NULL) return;
  if (array->release != NULL) array->release(array);
  free(array);
  column->array = NULL;
}

bool msp_columns_take(PyObject *const *args, Py_ssize_t count, const char *formats, msp_column *columns) {
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

void msp_columns_release(msp_column *columns, int count) {
  for (int i = 0; i < count; ++i) msp_column_release(&columns[i]);
}

bool msp_columns_make(msp_new_column *columns, int count, int64_t rows) {
  bool all = true;
  for (int i = 0; i < count; ++i) {
    columns[i].values = calloc((size_t)rows + 1, width(columns[i].format));
    all = all && columns[i].values != NULL;
  }
  if (all) return true;
  for (int i = 0; i < count; ++i) {
    free(columns[i].values);
    columns[i].values = NULL;
  }
  PyErr_NoMemory();
  return false;
}

bool msp_column_valid(msp_new_column *column, int64_t rows, uint64_t missing) {
  column->valid = calloc((size_t)rows / 8 + 1, 1);
  if (column->valid == NULL) return false;
  for (int64_t i = 0; i < rows; ++i) {
    bool known = width(column->format) == 4 ? ((const uint32_t *)column->values)[i] != (uint32_t)missing
                                            : ((const uint64_t *)column->values)[i] != missing;
    column->valid[i >> 3] |= (uint8_t)(known << (i & 7));
  }
  return true;
}

/* A new table for Polars: an Arrow struct array and its columns. A consumer may move a column out of the table, and
 * release it after the rest. So each column owns its buffers. Names and formats are never freed. */

enum { COLUMNS_MOST = 16, NULLABLE = 2 };

typedef struct {
  struct schema columns[COLUMNS_MOST];
  struct schema *pointers[COLUMNS_MOST];
} table_schema;

typedef struct {
  struct array columns[COLUMNS_MOST];
  struct array *pointers[COLUMNS_MOST];
  const void *none;
} table_array;

static const char *format_text(char format) {
  static const char texts[][2] = {"l", "L", "I", "S", "C"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    if (texts[i][0] == format) return texts[i];
  }
  return "n";
}

static void release_column_schema(struct schema *schema) { schema->release = NULL; }

static void release_schema(struct schema *schema) {
  for (int64_t i = 0; i < schema->n_children; ++i) {
    if (schema->children[i]->release != NULL) schema->children[i]->release(schema->children[i]);
  }
  free(schema->private_data);
  schema->release = NULL;
}

static void release_column(struct array *array) {
  const void **buffers = array->private_data;
  free((void *)buffers[0]);
  free((void *)buffers[1]);
  free((void *)buffers);
  array->release = NULL;
}

static void release_array(struct array *array) {
  for (int64_t i = 0; i < array->n_children; ++i) {
    if (array->children[i]->release != NULL) array->children[i]->release(array->children[i]);
  }
  free(array->private_data);
  array->release = NULL;
}

static void drop_schema(PyObject *capsule) {
  struct schema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");
  if (schema->release != NULL) schema->release(schema);
  free(schema);
}

static void drop_array(PyObject *capsule) {
  struct array *array = PyCapsule_GetPointer(capsule, "arrow_array");
  if (array->release != NULL) array->release(array);
  free(array);
}

static struct schema *make_schema(const msp_new_column *columns, int count) {
  struct schema *schema = calloc(1, sizeof *schema);
  table_schema *table = calloc(1, sizeof *table);
  if (schema == NULL || table == NULL) {
    free(schema);
    free(table);
    return NULL;
  }
  for (int i = 0; i < count; ++i) {
    table->pointers[i] = &table->columns[i];
    table->columns[i] = (struct schema){.format = format_text(columns[i].format),
                                        .name = columns[i].name,
                                        .flags = NULLABLE,
                                        .release = release_column_schema};
  }
  *schema = (struct schema){.format = "+s",
                            .name = "",
                            .n_children = count,
                            .children = table->pointers,
                            .release = release_schema,
                            .private_data = table};
  return schema;
}

/* Move the buffers of a column into an Arrow array. Returns false if there is no memory; then the column keeps its
 * buffers. */
static bool make_column(struct array *array, msp_new_column *column, int64_t rows) {
  const void **buffers = malloc(2 * sizeof *buffers);
  if (buffers == NULL) return false;
  buffers[0] = column->valid;
  buffers[1] = column->values;
  column->valid = NULL;
  column->values = NULL;
  *array = (struct array){.length = rows,
                          .null_count = buffers[0] == NULL ? 0 : -1,
                          .n_buffers = 2,
                          .buffers = buffers,
                          .release = release_column,
                          .private_data = buffers};
  return true;
}

static struct array *make_array(msp_new_column *columns, int count, int64_t rows) {
  struct array *array = calloc(1, sizeof *array);
  table_array *table = calloc(1, sizeof *table);
  if (array == NULL || table == NULL) {
    free(array);
    free(table);
    return NULL;
  }
  *array = (struct array){.length = rows,
                          .n_buffers = 1,
                          .buffers = &table->none,
                          .children = table->pointers,
                          .release = release_array,
                          .private_data = table};
  for (int i = 0; i < count; ++i) {
    table->pointers[i] = &table->columns[i];
    array->n_children = i + 1;
    if (!make_column(&table->columns[i], &columns[i], rows)) {
      release_array(array);
      free(array);
      return NULL;
    }
  }
  return array;
}

PyObject *msp_table_give(msp_new_column *columns, int count, int64_t rows) {
  struct schema *schema = count <= COLUMNS_MOST ? make_schema(columns, count) : NULL;
  struct array *array = schema == NULL ? NULL : make_array(columns, count, rows);
  for (int i = 0; i < count; ++i) { /* columns that no array has taken */
    free(columns[i].values);
    free(columns[i].valid);
  }
  if (array == NULL) {
    if (schema != NULL) schema->release(schema);
    free(schema);
    return PyErr_NoMemory();
  }
  PyObject *first = PyCapsule_New(schema, "arrow_schema", drop_schema);
  PyObject *second = first == NULL ? NULL : PyCapsule_New(array, "arrow_array", drop_array);
  if (second == NULL) {
    array->release(array);
    free(array);
    if (first == NULL) {
      schema->release(schema);
      free(schema);
    }
    Py_XDECREF(first);
    return NULL;
  }
  PyObject *pair = PyTuple_Pack(2, first, second);
  Py_DECREF(first);
  Py_DECREF(second);
  return pair;
}

PyObject *msp_table_finish(msp_new_column *columns, int count, int64_t rows, bool done) {
  if (done) return msp_table_give(columns, count, rows);
  for (int i = 0; i < count; ++i) {
    free(columns[i].values);
    free(columns[i].valid);
  }
  return PyErr_NoMemory();
}
