#include "perfetto_module.h"

#include <stdlib.h>
#include <string.h>

#include "arrow.h"
#include "perfetto.h"

enum { EVENT_COLUMNS = 6, FLOW_COLUMNS = 3, COLUMNS_MOST = EVENT_COLUMNS + FLOW_COLUMNS + MSP_PERFETTO_ARGUMENTS_MOST };

/* The arguments of a call from Python, with their memory, which is freed when the call returns. */
typedef struct {
  msp_events events;
  msp_tracks tracks;
  msp_track *track_list;
  msp_text_table *tables;
  msp_argument arguments[MSP_PERFETTO_ARGUMENTS_MOST];
  msp_column columns[COLUMNS_MOST];
  int taken;
} call;

static void free_call(call *of) {
  for (int i = 0; i < of->taken; ++i) msp_column_release(&of->columns[i]);
  for (size_t i = 0; of->tables != NULL && i < of->events.table_count; ++i) free((void *)of->tables[i].texts);
  free(of->tables);
  free(of->track_list);
}

/* Allocate memory for the items of a Python list, and store the number of items in `count`. Returns NULL with an
 * exception set on failure. */
static void *list_room(PyObject *list, size_t size, size_t *count) {
  Py_ssize_t items = PyList_Size(list);
  if (items < 0) return NULL;
  void *room = calloc((size_t)items + 1, size);
  if (room == NULL) return PyErr_NoMemory();
  *count = (size_t)items;
  return room;
}

static bool take_text(PyObject *bytes, msp_text *text) {
  char *start;
  Py_ssize_t length;
  if (PyBytes_AsStringAndSize(bytes, &start, &length) < 0) return false;
  *text = (msp_text){start, (size_t)length};
  return true;
}

static bool take_tracks(PyObject *list, call *of) {
  of->track_list = list_room(list, sizeof *of->track_list, &of->tracks.count);
  if (of->track_list == NULL) return false;
  for (size_t i = 0; i < of->tracks.count; ++i) {
    PyObject *pair = PyList_GetItem(list, (Py_ssize_t)i);
    PyObject *uuid = PyTuple_GetItem(pair, 0), *descriptor = uuid == NULL ? NULL : PyTuple_GetItem(pair, 1);
    if (descriptor == NULL || !take_text(descriptor, &of->track_list[i].descriptor)) return false;
    of->track_list[i].uuid = PyLong_AsUnsignedLongLong(uuid);
    if (PyErr_Occurred()) return false;
  }
  of->tracks.tracks = of->track_list;
  return true;
}

static bool take_table(PyObject *list, msp_text_table *table) {
  msp_text *texts = list_room(list, sizeof *texts, &table->count);
  table->texts = texts;
  if (texts == NULL) return false;
  for (size_t i = 0; i < table->count; ++i) {
    Py_ssize_t length;
    const char *bytes = PyUnicode_AsUTF8AndSize(PyList_GetItem(list, (Py_ssize_t)i), &length);
    if (bytes == NULL) return false;
    texts[i] = (msp_text){bytes, (size_t)length};
  }
  return true;
}

static bool take_tables(PyObject *list, call *of) {
  of->tables = list_room(list, sizeof *of->tables, &of->events.table_count);
  if (of->tables == NULL) return false;
  for (size_t i = 0; i < of->events.table_count; ++i) {
    if (!take_table(PyList_GetItem(list, (Py_ssize_t)i), &of->tables[i])) return false;
  }
  of->events.tables = of->tables;
  return true;
}

/* Take a column of Polars with `rows` rows, or with any number of rows if `rows` is negative. Returns NULL with an
 * exception set on failure. */
static const msp_column *take_column(PyObject *object, char format, int64_t rows, call *of) {
  msp_column *column = &of->columns[of->taken];
  if (object == NULL || !msp_column_take(object, format, column)) return NULL;
  ++of->taken;
  if (column->count == rows || rows < 0) return column;
  PyErr_Format(PyExc_ValueError, "a column of %lld rows, not %lld", (long long)column->count, (long long)rows);
  return NULL;
}

/* Take a column that only some kinds of events have. None in the tuple stands for no column. */
static bool take_if(PyObject *tuple, Py_ssize_t at, char format, call *of, const void **values) {
  PyObject *object = PyTuple_GetItem(tuple, at);
  *values = NULL;
  if (object == Py_None) return true;
  const msp_column *column = take_column(object, format, of->events.count, of);
  if (column != NULL) *values = column->values;
  return column != NULL;
}

static bool take_events(PyObject *tuple, call *of) {
  msp_events *events = &of->events;
  const msp_column *track = take_column(PyTuple_GetItem(tuple, 0), 'I', -1, of);
  if (track == NULL) return false;
  events->count = track->count;
  events->track = track->values;
  bool taken = take_if(tuple, 1, 'l', of, (const void **)&events->start_ns) &&
               take_if(tuple, 2, 'l', of, (const void **)&events->end_ns) &&
               take_if(tuple, 3, 'g', of, (const void **)&events->value) &&
               take_if(tuple, 4, 'I', of, (const void **)&events->name) &&
               take_if(tuple, 5, 'I', of, (const void **)&events->category);
  if (!taken) return false;
  bool counter = events->kind == MSP_EVENT_COUNTER;
  bool complete = events->start_ns != NULL && (events->end_ns != NULL) == (events->kind == MSP_EVENT_SLICE) &&
                  (events->value != NULL) == counter && (counter || (events->name && events->category)) &&
                  events->table_count >= 2;
  if (!complete) PyErr_SetString(PyExc_ValueError, "the columns do not fit this kind of events");
  return complete;
}

static bool take_arguments(PyObject *list, call *of) {
  Py_ssize_t count = PyList_Size(list);
  if (count < 0) return false;
  if (count > MSP_PERFETTO_ARGUMENTS_MOST) {
    PyErr_Format(PyExc_ValueError, "%zd arguments are too many", count);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    static const char formats[] = {'I', 'l', 'C'};
    msp_argument *argument = &of->arguments[i];
    PyObject *item = PyList_GetItem(list, i);
    PyObject *name = PyTuple_GetItem(item, 0), *what = name == NULL ? NULL : PyTuple_GetItem(item, 1);
    if (what == NULL || !take_text(name, &argument->name)) return false;
    argument->kind = what == Py_None ? MSP_ARGUMENT_INTEGER : what == Py_True ? MSP_ARGUMENT_TRUE : MSP_ARGUMENT_TEXT;
    if (argument->kind == MSP_ARGUMENT_TEXT) {
      argument->table = PyLong_AsSize_t(what);
      if (PyErr_Occurred()) return false;
      if (argument->table >= of->events.table_count) {
        PyErr_Format(PyExc_ValueError, "there is no table %zu", argument->table);
        return false;
      }
    }
    const msp_column *column = take_column(PyTuple_GetItem(item, 2), formats[argument->kind], of->events.count, of);
    if (column == NULL) return false;
    argument->values = column->values;
    argument->valid = column->valid;
    argument->offset = column->offset;
  }
  of->events.arguments = of->arguments;
  of->events.argument_count = (size_t)count;
  return true;
}

static bool take_flows(PyObject *tuple, call *of) {
  const msp_column *event = take_column(PyTuple_GetItem(tuple, 0), 'I', -1, of);
  if (event == NULL) return false;
  const msp_column *id = take_column(PyTuple_GetItem(tuple, 1), 'l', event->count, of);
  const msp_column *ends = id == NULL ? NULL : take_column(PyTuple_GetItem(tuple, 2), 'C', event->count, of);
  if (ends == NULL) return false;
  of->events.flow_count = event->count;
  of->events.flow_event = event->values;
  of->events.flow_id = id->values;
  of->events.flow_ends = ends->values;
  return true;
}

static bool take_head(PyObject *tuple, call *of) {
  long long values[6];
  for (Py_ssize_t i = 0; i < 6; ++i) {
    PyObject *value = PyTuple_GetItem(tuple, i);
    if (value == NULL) return false;
    values[i] = PyLong_AsLongLong(value);
    if (PyErr_Occurred()) return false;
  }
  if (values[0] < 0 || values[0] > MSP_EVENT_COUNTER) {
    PyErr_Format(PyExc_ValueError, "there is no kind %lld of events", values[0]);
    return false;
  }
  of->events.kind = (msp_event_kind)values[0];
  of->tracks.base_ns = values[1];
  of->tracks.sequence = (uint32_t)values[2];
  of->tracks.crossing_uuid = (uint64_t)values[3];
  of->tracks.stride = (uint32_t)values[4];
  of->tracks.further = values[5] != 0;
  return true;
}

/* The Python function that receives the bytes, and the thread state for calling it. */
typedef struct {
  PyObject *write;
  PyThreadState *thread;
} receiver;

static bool send(void *context, const uint8_t *bytes, size_t length) {
  receiver *to = context;
  PyEval_RestoreThread(to->thread);
  PyObject *object = PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)length);
  PyObject *result = object == NULL ? NULL : PyObject_CallFunctionObjArgs(to->write, object, NULL);
  Py_XDECREF(object);
  Py_XDECREF(result);
  to->thread = PyEval_SaveThread();
  return result != NULL;
}

PyObject *msp_py_track_events(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  (void)self;
  if (count != 7) return PyErr_Format(PyExc_TypeError, "track_events() takes 7 arguments, not %zd", count);
  call of = {.taken = 0};
  PyObject *result = NULL;
  if (take_head(args[1], &of) && take_tracks(args[2], &of) && take_tables(args[3], &of) && take_events(args[4], &of) &&
      take_arguments(args[5], &of) && take_flows(args[6], &of)) {
    receiver to = {args[0], PyEval_SaveThread()};
    msp_perfetto_result done = msp_perfetto_write(&of.tracks, &of.events, send, &to);
    PyEval_RestoreThread(to.thread);
    if (done == MSP_PERFETTO_DONE) result = PyLong_FromUnsignedLong(of.tracks.sequence);
    if (done == MSP_PERFETTO_NO_MEMORY) PyErr_NoMemory();
    if (done == MSP_PERFETTO_RANGE) PyErr_SetString(PyExc_ValueError, "events out of order, or an index out of range");
  }
  free_call(&of);
  return result;
}
