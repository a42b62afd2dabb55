#include "block_places.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "blocks.h"
#include "codes.h"
#include "pending.h"
#include "writer.h"

/* This function is not part of Python's limited API, but it is the same in all versions since 3.9. */
extern PyFrameObject *PyFrame_GetBack(PyFrameObject *frame) __attribute__((weak));

enum { WAITING = 64, DEEP = 10 };

typedef struct {
  uint64_t time_ns;
  uintptr_t address;
} taken;

/* The blocks whose Python lines one thread still has to record. Only this thread uses the fields; `asked` is the
 * exception. The thread allocates blocks in C code, usually without the GIL, so it cannot read Python's objects at that
 * moment. It reads them before its next bytecode. Until then, its frames are those of the call that allocated the
 * block. */
static struct {
  pthread_t thread;
  bool asked;
  uint32_t count;
  taken waiting[WAITING];
} places;

static void put(const taken *block, uint32_t depth, const msp_code *function, int line) {
  msp_writer *writer = msp_writer_get();
  if (writer == NULL || !msp_writer_admits(writer, MSP_CATEGORY_BLOCK)) return;
  msp_slot *slot = msp_writer_slot(writer, MSP_WORTH_FINE);
  if (slot == NULL) return;
  uint64_t at = line > 0 ? (uint64_t)line : function->source.line;
  msp_slot_commit(slot, block->time_ns, (uint64_t)block->address | (uint64_t)depth << MSP_BLOCK_BITS,
                  (uint64_t)function->source.file << MSP_FRAME_LINE_BITS | (at & MSP_FRAME_LINE_MOST),
                  function->source.name, msp_slot_word(MSP_KIND_BLOCK_PLACE, MSP_CATEGORY_BLOCK, 0, 0));
}

/* Record the Python frames of this thread for the blocks that it has just allocated. The interpreter calls this
 * function with the GIL, between two bytecodes. */
static int record_places(void *unused) {
  (void)unused;
  __atomic_store_n(&places.asked, false, __ATOMIC_RELEASE);
  if (!pthread_equal(pthread_self(), places.thread)) return 0; /* from 3.12 on, any thread may run this call */
  const uint32_t count = places.count;
  places.count = 0;
  PyFrameObject *frame = PyEval_GetFrame();
  Py_XINCREF((PyObject *)frame);
  for (uint32_t depth = 0; depth < DEEP && frame != NULL; ++depth) {
    PyObject *code = (PyObject *)PyFrame_GetCode(frame);
    const msp_code *function = code == NULL ? NULL : msp_code_of(code);
    int line = PyFrame_GetLineNumber(frame);
    for (uint32_t i = 0; i < count && function != NULL; ++i) put(&places.waiting[i], depth, function, line);
    Py_XDECREF(code);
    PyFrameObject *back = PyFrame_GetBack(frame);
    Py_DECREF((PyObject *)frame);
    frame = back;
  }
  Py_XDECREF((PyObject *)frame);
  PyErr_Clear();
  return 0;
}

static void note(uint64_t time_ns, uintptr_t address) {
  if (!pthread_equal(pthread_self(), places.thread) || places.count == WAITING) return;
  places.waiting[places.count++] = (taken){time_ns, address};
  if (!__atomic_exchange_n(&places.asked, true, __ATOMIC_ACQ_REL) && !msp_pending_ask(record_places)) {
    __atomic_store_n(&places.asked, false, __ATOMIC_RELEASE);
  }
}

static PyObject *py_block_places(PyObject *self, PyObject *on) {
  (void)self;
  int truth = PyObject_IsTrue(on);
  if (truth < 0) return NULL;
  if (truth && PyFrame_GetBack == NULL) Py_RETURN_FALSE;
  msp_blocks_when_taken(NULL);
  places.thread = pthread_self();
  places.count = 0;
  if (truth) msp_blocks_when_taken(note);
  Py_RETURN_TRUE;
}

static PyMethodDef functions[] = {
    {"block_places", py_block_places, METH_O,
     "Start or stop recording the lines in which this thread allocates blocks; return whether that is possible."},
    {NULL, NULL, 0, NULL}};

int msp_block_places_add(PyObject *module) { return PyModule_AddFunctions(module, functions); }
