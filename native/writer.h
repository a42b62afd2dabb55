/* The writer of one thread: its segment, its open spans, and the functions that every event passes through.
 *
 * Nothing here takes a lock or a system call until a segment is full. A writer belongs to its thread alone; only the
 * count of its records is read by others.
 */
#ifndef MSP_WRITER_H
#define MSP_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "gate.h"
#include "slot.h"
#include "store.h"
#include "strings.h"
#include "tsc.h"

/* A token holds an index of the stack of open spans and the serial number of the entry. A token that is used twice,
 * on another thread, or after close, finds another serial number. 30 bits: one digit of a Python integer. */
enum { MSP_DEPTH_BITS = 9, MSP_DEPTH_MOST = 1 << MSP_DEPTH_BITS, MSP_SERIAL_MASK = (1 << 21) - 1 };

typedef struct {
  msp_slot *slot;
  msp_segment *segment;
  uint32_t serial;
  uint16_t ops; /* open operators when it began */
  uint8_t category;
  bool op; /* the span is an operator of the op stream */
} msp_open_span;

/* The times of a recording thread's looks at the scheduler, which show whether the thread ran.
 * CLOCK_THREAD_CPUTIME_ID takes 0.4 us, so looks 250 us apart take 0.2 % at most. */
#define MSP_QUIET_NS 250000u /* time without an event after which a thread looks */
#define MSP_LOOK_NS 5000000u /* time since the last look after which a thread looks in any case */

typedef struct {
  uint64_t event_ns;  /* time of the last event */
  uint64_t due_ns;    /* to look at the latest */
  uint64_t looked_ns; /* 0 before the first time */
  uint64_t since_ns;  /* time of the last look that read how long the thread waited for a processor */
  uint64_t since_ran_ns;
  uint64_t waited_ns; /* the system's answer then */
} msp_looks;

/* The fields that every event needs are next to each other: between two events a framework uses the whole cache. */
typedef struct msp_writer {
  const msp_gate *gate;
  uint32_t session; /* the session that the segment belongs to */
  uint32_t depth;   /* open spans */
  uint32_t serial;  /* of the span begun last */
  uint32_t ops;     /* operators of the op stream that have not ended, recorded or not */
  msp_slot *next;   /* free slots of the segment */
  msp_slot *limit;
  uint64_t records; /* in this session */
  msp_segment *segment;
  msp_tsc tsc; /* the clock of the thread's records */
  msp_looks looks;
  uint32_t wanted; /* slots of the next segment */
  uint32_t number; /* number of the thread in this session, from 1; 0 before its first record */
  char *label;     /* name of the thread as set; NULL: ask the system */
  size_t label_length;
  struct msp_writer *previous, *following; /* among the session's writers */
  struct msp_calls *calls;                 /* calls of functions; NULL: none was traced */
  msp_recent recent;
  msp_open_span open[MSP_DEPTH_MOST];
} msp_writer;

/* One pointer of thread-local storage. The dynamic model costs an operator 8 ns more than the static one, which
 * takes from the few hundred bytes that all libraries loaded later have to share, and fails where they are used up. */
extern __thread msp_writer *msp_writer_current;

/* Once per process. Returns 0 or an errno. */
int msp_writer_init(void);
void msp_writer_after_fork(void);

/* The rare cases of the functions below. */
msp_writer *msp_writer_enter(void);
bool msp_writer_refuses(uint32_t refuse, uint8_t category);
bool msp_writer_extend(msp_writer *writer, msp_worth worth);
void msp_writer_drop(const msp_writer *writer);
void msp_writer_settle(msp_writer *writer, msp_segment *segment);
void msp_writer_look(msp_writer *writer, uint64_t now, uint64_t before);

/* Name the calling thread in every store from here on. */
void msp_writer_name(const char *text, size_t length);

/* End the open spans of the calling thread, as it closes the session. */
void msp_writer_end_all(void);

/* Release the calling thread's hold of a closed session; the last thread closes the store. */
void msp_writer_leave(void);

/* Records of the session opened last, and threads that wrote any. */
uint64_t msp_writer_records(void);
uint32_t msp_writer_threads(void);

/* Start counting for a new session. */
void msp_writer_reset(uint32_t session);

/* Let the calling thread write into private memory (true), or into the store again, to measure the cost of
 * recording. Returns false if there is no memory. */
bool msp_writer_scratch(bool on);

/* The writer of this thread, if a session is open, or if the last one was closed and nothing has changed since. */
static inline msp_writer *msp_writer_get(void) {
  msp_writer *writer = msp_writer_current;
  if (__builtin_expect(writer == NULL || writer->session != msp_gate_load(&writer->gate->session), 0)) {
    return msp_writer_enter();
  }
  return writer;
}

static inline bool msp_writer_admits(const msp_writer *writer, uint8_t category) {
  uint32_t refuse = msp_gate_load(&writer->gate->refuse);
  return __builtin_expect(refuse == 0, 1) || !msp_writer_refuses(refuse, category);
}

static inline msp_slot *msp_writer_slot(msp_writer *writer, msp_worth worth) {
  if (__builtin_expect(writer->next == writer->limit, 0) && !msp_writer_extend(writer, worth)) return NULL;
  __atomic_store_n(&writer->records, writer->records + 1, __ATOMIC_RELAXED);
  return writer->next++;
}

static inline msp_worth msp_worth_of(uint8_t category) {
  return category & MSP_CATEGORY_FINE ? MSP_WORTH_FINE : MSP_WORTH_COARSE;
}

/* CLOCK_MONOTONIC_RAW in nanoseconds, never before a time that this thread has recorded. */
static inline uint64_t msp_writer_now(void) {
  msp_writer *writer = msp_writer_current;
  return writer != NULL ? msp_tsc_now(&writer->tsc) : msp_now();
}

/* Note an event of this thread; if the last one was long ago, look whether the thread ran meanwhile. */
static inline void msp_writer_passed(msp_writer *writer, uint64_t now) {
  uint64_t before = writer->looks.event_ns;
  writer->looks.event_ns = now;
  if (__builtin_expect(now - before >= MSP_QUIET_NS || now >= writer->looks.due_ns, 0)) {
    msp_writer_look(writer, now, before);
  }
}

/* Begin a span that the writer admits, or an operator; returns its token, 0 when it is not recorded. */
static inline uint32_t msp_writer_begin(msp_writer *writer, uint32_t name, uint8_t category, uint64_t arg, bool op) {
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
  *span = (msp_open_span){slot, writer->segment, serial, (uint16_t)writer->ops, category, op};
  uint64_t now = msp_tsc_now(&writer->tsc);
  msp_slot_commit(slot, now, 0, arg, name, msp_slot_word(MSP_KIND_OPEN, category, 0, 0));
  msp_writer_passed(writer, now);
  return serial << MSP_DEPTH_BITS | index;
}

static inline void msp_writer_end_last(msp_writer *writer, uint64_t now, uint8_t flags) {
  msp_open_span *span = &writer->open[--writer->depth];
  msp_slot_end(span->slot, now, span->category, flags);
  if (__builtin_expect(span->segment != writer->segment, 0)) msp_writer_settle(writer, span->segment);
}

/* Begin a span of the calling thread; returns its token, 0 when it is not recorded. */
static inline uint32_t msp_begin(uint32_t name, uint8_t category, uint64_t arg) {
  msp_writer *writer = msp_writer_get();
  if (writer == NULL || !msp_writer_admits(writer, category)) return 0;
  return msp_writer_begin(writer, name, category, arg, false);
}

/* End the open span of that index, and those that began after it with the flags `inner`. */
static inline void msp_writer_end(msp_writer *writer, uint32_t index, uint8_t flags, uint8_t inner) {
  uint64_t now = msp_tsc_now(&writer->tsc);
  while (writer->depth > index + 1) msp_writer_end_last(writer, now, inner);
  msp_writer_end_last(writer, now, flags);
  msp_writer_passed(writer, now);
}

/* End the span of a token, and abandon those that began after it; does nothing when it is not open. */
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

/* Record a complete slot; a pause does not refuse it. Kinds that are not events are not committed. */
bool msp_record(uint8_t kind, uint8_t category, uint8_t flags, uint32_t name, uint64_t start_ns, uint64_t end_ns,
                uint64_t arg);

#endif
