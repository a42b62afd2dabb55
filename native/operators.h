/* Record the operators that PyTorch reports. Their begins and ends nest on each thread. */
#ifndef MSP_OPERATORS_H
#define MSP_OPERATORS_H

#include <stdbool.h>
#include <string.h>

#include "writer.h"

typedef enum {
  MSP_OPERATOR,
  MSP_OPERATOR_REGION,    /* a region of the user */
  MSP_OPERATOR_ASYNC,     /* an exchange of torch.distributed on the calling thread, on which it also ends */
  MSP_OPERATOR_EXCHANGE,  /* an exchange of torch.distributed, on the thread of the backend that runs it */
  MSP_OPERATOR_ELSEWHERE, /* an exchange whose end is reported on another thread, or in the call that waits for it */
} msp_operator_kind;

static inline bool msp_operator_is(const char *name, const char *with, size_t length) {
  return strncmp(name, with, length) == 0 && name[length] != ':';
}

/* Return the kind of an operator by its name. The name of an exchange between ranks has one colon ("gloo:", "mpi:"),
 * the name of an operator has two ("aten::"). gloo reports collectives on its own threads, and messages on the calling
 * thread. mpi reports all exchanges on the calling thread. */
static inline msp_operator_kind msp_operator_kind_of(const char *name) {
  if (name[0] != 'g' && name[0] != 'm') return MSP_OPERATOR; /* the quick test for most operators */
  if (msp_operator_is(name, "mpi:", 4)) return MSP_OPERATOR_ELSEWHERE;
  if (!msp_operator_is(name, "gloo:", 5)) return MSP_OPERATOR;
  bool message = strncmp(name + 5, "send", 4) == 0 || strncmp(name + 5, "recv", 4) == 0;
  return message ? MSP_OPERATOR_ELSEWHERE : MSP_OPERATOR_EXCHANGE;
}

static inline uint8_t msp_operator_category(msp_operator_kind kind) {
  if (kind == MSP_OPERATOR_REGION) return MSP_CATEGORY_MARKER;
  return kind < MSP_OPERATOR_EXCHANGE ? MSP_CATEGORY_OP : MSP_CATEGORY_COMMUNICATION;
}

static inline bool msp_operator_admits(const msp_writer *writer, msp_operator_kind kind) {
  return msp_writer_admits(writer, msp_operator_category(kind));
}

/* Record the begin of an operator for which msp_operator_admits is true. `function` is an address that identifies the
 * operator; the end has to name the same address. When PyTorch reports the end of an exchange elsewhere, the exchange
 * becomes an instant instead of a span. */
static inline void msp_operator_begin(msp_writer *writer, uint32_t text, msp_operator_kind kind, uint64_t arg,
                                      const void *function) {
  if (kind == MSP_OPERATOR_ELSEWHERE) {
    msp_instant(text, msp_operator_category(kind), 0);
  } else {
    msp_writer_begin(writer, text, msp_operator_category(kind), arg, function);
  }
}

/* Count the begin of an operator. Exchanges are not counted: at the end of an exchange, the thread cannot know whether
 * it has counted the begin. */
static inline void msp_operator_count(msp_writer *writer, msp_operator_kind kind) {
  if (kind <= MSP_OPERATOR_REGION) ++writer->ops;
}

/* Return the open operator of this thread that began last; NULL: no operator is open. */
static inline msp_open_span *msp_operator_last(msp_writer *writer) {
  uint32_t depth = writer->depth;
  while (depth > 0 && writer->open[depth - 1].function == NULL) --depth;
  return depth > 0 ? &writer->open[depth - 1] : NULL;
}

/* Record the end of an operator of this thread while operators that began later are still open. C++ ends operators in
 * the reverse order of their begins, with two exceptions:
 *
 * - The script may keep a region open after the operator's end. Then the region's span ends now in place of the
 *   operator's, and the operator's span ends with the region. So spans nest.
 * - A function of TorchScript may wait, and end later on another thread. Its span ends now, together with the
 *   operator's. */
static inline void msp_operator_end_outer(msp_writer *writer, msp_open_span *span) {
  for (;;) {
    msp_open_span *last = msp_operator_last(writer);
    bool exchanged = last != span && last->category == MSP_CATEGORY_MARKER, done = exchanged || last == span;
    if (exchanged) span->function = last->function;
    if (writer->ops > 0) --writer->ops;
    msp_writer_end(writer, (uint32_t)(last - writer->open), 0, MSP_FLAG_ABANDONED | MSP_FLAG_RAISED);
    if (done) return;
  }
}

/* Record the end of the operator that `function` identifies. Returns false if this thread has no such open operator: it
 * was not recorded, or it began on another thread. */
static inline bool msp_operator_end(msp_writer *writer, const void *function) {
  bool last = true;
  for (uint32_t index = writer->depth; index-- > 0;) {
    msp_open_span *span = &writer->open[index];
    if (span->function == NULL) continue;
    if (span->function != function) {
      last = false;
    } else if (last) {
      writer->ops = span->ops;
      /* Python spans that are still open inside the operator were ended by an exception */
      msp_writer_end(writer, index, 0, MSP_FLAG_ABANDONED | MSP_FLAG_RAISED);
      return true;
    } else {
      msp_operator_end_outer(writer, span);
      return true;
    }
  }
  return false;
}

/* Record now the end of a region of this thread, because PyTorch will report this end later, on any thread. Does
 * nothing if another operator has begun inside the region. */
static inline void msp_operator_hand_over(msp_writer *writer, uint32_t text) {
  const msp_open_span *last = msp_operator_last(writer);
  if (last != NULL && last->category == MSP_CATEGORY_MARKER && last->slot->name == text) {
    msp_operator_end(writer, last->function);
  }
}

#endif
