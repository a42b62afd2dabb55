/* The writer of one thread: its segment, its open spans, and the functions that record events.
 *
 * These functions take no lock. They make a system call only when a segment (a file of records) is full. Each writer
 * belongs to one thread; other threads only read the writer's count of records.
 */
#ifndef MSP_WRITER_H
#define MSP_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "gate.h"
#include "looks.h"
#include "slot.h"
#include "store.h"
#include "strings.h"
#include "tsc.h"

/* A token identifies an open span. It consists of an index into the stack of open spans, and the serial number of the
 * span at this index. When a token is used twice, on another thread, or after close, the serial number differs, so the
 * misuse is noticed. A token has 30 bits, the size of one digit of a Python integer. */
enum { MSP_DEPTH_BITS = 9, MSP_DEPTH_MOST = 1 << MSP_DEPTH_BITS, MSP_SERIAL_MASK = (1 << 21) - 1 };

typedef struct {
  msp_slot *slot;
  msp_segment *segment;
  const void *function; /* address that identifies an operator, see operators.h; NULL: no operator */
  uint32_t serial;
  uint16_t ops; /* number of open operators when the span began */
  uint8_t category;
} msp_open_span;

/* The writer of a thread. The fields that every event needs are adjacent, so they are in few cache lines. This matters
 * because a framework may replace the whole cache between two events.
 */
typedef struct msp_writer {
  const msp_gate *gate;
  uint32_t session; /* the session of the segment */
  uint32_t depth;   /* number of open spans */
  uint32_t serial;  /* serial number of the span that began last */
  uint32_t ops;     /* open operators, recorded or not, except those that may end on another thread */
  uint32_t strays;  /* for observer.c: the functions of TorchScript that ended on another thread */
  bool strays_left;
  msp_slot *next; /* free slots of the segment */
  msp_slot *limit;
  uint64_t records; /* number of records in this session */
  msp_segment *segment;
  msp_tsc tsc; /* the clock of the thread's records */
  msp_looks looks;
  uint32_t wanted; /* slots of the next segment */
  uint32_t number; /* number of the thread in this session, from 1; 0 before its first record */
  int tid;         /* the system's id of the thread, set with `number` */
  char *label;     /* name of the thread from msp_writer_name; NULL: use that of the system */
  size_t label_length;
  struct msp_writer *previous, *following; /* neighbours in the list of the session's writers */
  struct msp_calls *calls;                 /* open calls; NULL: no call was traced */
  msp_recent recent;
  msp_open_span open[MSP_DEPTH_MOST];
} msp_writer;

/* The writer of this thread. Its thread-local storage uses the dynamic model, which costs 8 ns more for each operator
 * than the static model. The static model takes space from a few hundred bytes, which all libraries loaded later share.
 * When these bytes are used up, loading fails. */
extern __thread msp_writer *msp_writer_current;

/* Set up the writers; called once per process. Returns 0 or an errno. */
int msp_writer_init(void);
void msp_writer_after_fork(void);

/* The rarely used parts of the functions below, which are not inline. */
msp_writer *msp_writer_enter(void);
bool msp_writer_refuses(uint32_t refuse, uint8_t category);
bool msp_writer_extend(msp_writer *writer, msp_worth worth);
void msp_writer_drop(const msp_writer *writer);
void msp_writer_settle(msp_writer *writer, msp_segment *segment);
void msp_writer_look(msp_writer *writer, uint64_t now, uint64_t before);

/* Set the calling thread's name in this and all later stores. */
void msp_writer_name(const char *text, size_t length);

/* End the open spans of the calling thread, which is about to close the session. */
void msp_writer_end_all(void);

/* Release the files into which the calling thread recorded in a session that is closed now. */
void msp_writer_leave(void);

/* msp_writer_records returns the number of records in the last session, and msp_writer_threads the number of threads
 * that wrote them. If `rest` is not NULL, it is set to whether all of these threads except the calling one sleep. */
uint64_t msp_writer_records(bool *rest);
uint32_t msp_writer_threads(void);

/* Reset the numbers of records and threads for a new session. */
void msp_writer_reset(uint32_t session);

/* Make the calling thread write its records to private memory (true), or to the store again (false). With private
 * memory, the cost of recording can be measured. Returns false if there is no memory. */
bool msp_writer_scratch(bool on);

/* Return the writer of this thread. If no session is open, the result is NULL, or a writer that cannot record. */
static inline msp_writer *msp_writer_get(void) {
  msp_writer *writer = msp_writer_current;
  if (__builtin_expect(writer == NULL || writer->session != msp_gate_load(&writer->gate->session), 0)) {
    return msp_writer_enter();
  }
  return writer;
}

/* Return whether the gate accepts events of a category now. */
static inline bool msp_writer_admits(const msp_writer *writer, uint8_t category) {
  uint32_t refuse = msp_gate_load(&writer->gate->refuse);
  return __builtin_expect(refuse == 0, 1) || !msp_writer_refuses(refuse, category);
}

/* Return whether events of a category are not recorded because the current step is not sampled. In this case, the
 * caller need not look up the label of the event. The look-up would take 1 us, mostly for memory that is not in the
 * cache. */
static inline bool msp_writer_leaves_out(uint8_t category) {
  return (category & MSP_CATEGORY_FINE) != 0 && (msp_gate_load(&msp_gate_page->refuse) & MSP_REFUSE_FINE) != 0;
}

/* Count a record, and return the next free slot (32 bytes of the store) for it. Makes a new segment if necessary.
 * Returns NULL if there is no room. */
static inline msp_slot *msp_writer_slot(msp_writer *writer, msp_worth worth) {
  if (__builtin_expect(writer->next == writer->limit, 0) && !msp_writer_extend(writer, worth)) return NULL;
  __atomic_store_n(&writer->records, writer->records + 1, __ATOMIC_RELAXED);
  return writer->next++;
}

static inline msp_worth msp_worth_of(uint8_t category) {
  return category & MSP_CATEGORY_FINE ? MSP_WORTH_FINE : MSP_WORTH_COARSE;
}

/* Return CLOCK_MONOTONIC_RAW in nanoseconds. The result is never less than a time that this thread has recorded. */
static inline uint64_t msp_writer_now(void) {
  msp_writer *writer = msp_writer_current;
  return writer != NULL ? msp_tsc_now(&writer->tsc) : msp_now();
}

/* Store the time of this thread's last event, and read the thread's processor time (a look) if that is due. Returns
 * whether it was due. */
static inline bool msp_writer_passed(msp_writer *writer, uint64_t now) {
  uint64_t before = writer->looks.event_ns;
  writer->looks.event_ns = now;
  if (__builtin_expect(now - before < MSP_QUIET_NS && now < writer->looks.due_ns, 1)) return false;
  msp_writer_look(writer, now, before);
  return true;
}

/* Begin a span of a category that the gate accepts. `function` identifies an operator, see msp_open_span. Returns the
 * token of the span; 0: the span is not recorded. */
static inline uint32_t msp_writer_begin(msp_writer *writer, uint32_t name, uint8_t category, uint64_t arg,
                                        const void *function) {
  if (__builtin_expect(writer->depth == MSP_DEPTH_MOST, 0)) {
    msp_writer_drop(writer);
    return 0;
  }
  msp_slot *slot = msp_writer_slot(writer, msp_worth_of(category));
  if (slot == NULL) return 0;
  uint32_t serial = (writer->serial + 1) & MSP_SERIAL_MASK;
  serial += serial == 0;
  writer->serial = serial;
  uint32_t index = writer->depth++;
  msp_open_span *span = &writer->open[index];
  *span = (msp_open_span){slot, writer->segment, function, serial, (uint16_t)writer->ops, category};
  uint64_t now = msp_tsc_now(&writer->tsc);
  msp_slot_commit(slot, now, 0, arg, name, msp_slot_word(MSP_KIND_OPEN, category, 0, 0));
  /* The span begins after the look: a look makes system calls, and on a busy machine the thread may lose its processor
   * in them for milliseconds, a thousand times the time of a small operator. */
  if (__builtin_expect(msp_writer_passed(writer, now), 0)) {
    __atomic_store_n(&slot->start_ns, msp_tsc_now(&writer->tsc), __ATOMIC_RELAXED);
  }
  return serial << MSP_DEPTH_BITS | index;
}

/* End the span that began last. */
static inline void msp_writer_end_last(msp_writer *writer, uint64_t now, uint8_t flags) {
  msp_open_span *span = &writer->open[--writer->depth];
  msp_slot_end(span->slot, now, span->category, flags);
  if (__builtin_expect(span->segment != writer->segment, 0)) msp_writer_settle(writer, span->segment);
}

/* Begin a span of the calling thread. Returns the token of the span; 0: the span is not recorded. */
static inline uint32_t msp_begin(uint32_t name, uint8_t category, uint64_t arg) {
  msp_writer *writer = msp_writer_get();
  if (writer == NULL || !msp_writer_admits(writer, category)) return 0;
  return msp_writer_begin(writer, name, category, arg, NULL);
}

/* End the open span at this index, with `flags`. Before that, end all spans that began after this span, with the flags
 * `inner`. */
static inline void msp_writer_end(msp_writer *writer, uint32_t index, uint8_t flags, uint8_t inner) {
  uint64_t now = msp_tsc_now(&writer->tsc);
  while (writer->depth > index + 1) msp_writer_end_last(writer, now, inner);
  msp_writer_end_last(writer, now, flags);
  msp_writer_passed(writer, now);
}

/* End the span that a token identifies. Spans that began later end, too, with MSP_FLAG_ABANDONED. Does nothing if the
 * span is not open. */
static inline void msp_end(uint32_t token, uint8_t flags) {
  if (token == 0) return;
  msp_writer *writer = msp_writer_get();
  uint32_t index = token & (MSP_DEPTH_MOST - 1);
  if (writer == NULL || index >= writer->depth || writer->open[index].serial != token >> MSP_DEPTH_BITS) return;
  msp_writer_end(writer, index, flags, MSP_FLAG_ABANDONED);
}

static inline void msp_event(uint8_t kind, uint32_t name, uint8_t category, uint64_t arg) {
  msp_writer *writer = msp_writer_get();
  if (writer == NULL || !msp_writer_admits(writer, category)) return;
  msp_slot *slot = msp_writer_slot(writer, msp_worth_of(category));
  if (slot == NULL) return;
  uint64_t now = msp_tsc_now(&writer->tsc);
  msp_slot_commit(slot, now, now, arg, name, msp_slot_word(kind, category, 0, 0));
}

static inline void msp_instant(uint32_t name, uint8_t category, uint64_t arg) {
  msp_event(MSP_KIND_INSTANT, name, category, arg);
}

static inline void msp_counter(uint32_t name, double value) {
  uint64_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  msp_event(MSP_KIND_COUNTER, name, 0, bits);
}

/* Write a complete record, even while recording is paused. Returns whether the record was written; false for kinds that
 * are no events. */
bool msp_record(uint8_t kind, uint8_t category, uint8_t flags, uint32_t name, uint64_t start_ns, uint64_t end_ns,
                uint64_t arg);

#endif
