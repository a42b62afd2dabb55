#include "control.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "clock.h"
#include "gate.h"
#include "helper.h"
#include "slot.h"
#include "store.h"
#include "strings.h"

/* Smallest number of slots (records of 32 bytes) in a segment of the control stream. It has room for the longest string
 * with its head, and for one pair of clock readings (anchor). */
#define SLOTS_LEAST 258

static struct {
  pthread_mutex_t lock;
  uint32_t session;   /* the session of this stream; 0 while there is none */
  msp_segment *first; /* its header counts the dropped records, so it stays until the session is closed */
  msp_segment *current;
  msp_segment *spare;
  uint32_t used; /* number of used slots of `current` */
} control = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint32_t msp_control_lock(void) {
  pthread_mutex_lock(&control.lock);
  return control.session;
}

void msp_control_unlock(void) { pthread_mutex_unlock(&control.lock); }

int msp_control_open(uint32_t session) {
  msp_control_lock();
  uint32_t slots = msp_store_first_slots(), strings = msp_strings_slots();
  strings += strings / 4 + SLOTS_LEAST;
  msp_control_unlock();
  if (slots < strings) slots = strings < msp_store_most_slots() ? strings : msp_store_most_slots();
  if (slots < SLOTS_LEAST) slots = SLOTS_LEAST;
  msp_segment *first;
  msp_outcome outcome = msp_store_take_control(slots, SLOTS_LEAST, true, &first);
  if (outcome != MSP_TAKEN) {
    int error = outcome == MSP_REFUSED_BY_LIMIT ? EDQUOT : msp_store_failure();
    msp_store_abandon(outcome == MSP_REFUSED_BY_LIMIT);
    return error;
  }
  msp_control_lock();
  control.session = session;
  control.first = control.current = first;
  control.spare = NULL;
  control.used = 0;
  msp_strings_write(session);
  msp_control_unlock();
  return 0;
}

void msp_control_close(void) {
  msp_control_lock();
  control.session = 0;
  if (control.spare != NULL) msp_store_discard(control.spare);
  if (control.current != control.first) msp_store_end(control.first, control.first->capacity);
  msp_store_end(control.current, control.used);
  control.first = control.current = control.spare = NULL;
  msp_control_unlock();
}

void msp_control_after_fork(void) {
  pthread_mutex_init(&control.lock, NULL);
  control.session = 0;
  control.first = control.current = control.spare = NULL;
}

static uint32_t next_slots(void) {
  uint32_t slots = 2 * control.current->capacity;
  return slots < msp_store_most_slots() ? slots : msp_store_most_slots();
}

/* Return the number of used slots at which the helper thread makes the next segment. At this point, an eighth of the
 * slots, or room for some strings, is still free. */
static uint32_t enough_slots(void) {
  uint32_t capacity = control.current->capacity, rest = capacity / 8;
  return capacity - (rest < SLOTS_LEAST / 2 ? SLOTS_LEAST / 2 : rest);
}

/* Return `count` consecutive free slots of the control stream; NULL if there is no disk space for them. Called with the
 * lock of the stream held. */
static msp_slot *reserve(uint32_t count) {
  if (control.used + count > control.current->capacity) {
    msp_segment *next = control.spare;
    control.spare = NULL;
    if (next == NULL && msp_store_take_control(next_slots(), SLOTS_LEAST, true, &next) != MSP_TAKEN) return NULL;
    if (control.current != control.first) msp_store_retire(control.current);
    control.current = next;
    control.used = 0;
  }
  uint32_t enough = enough_slots();
  if (control.used < enough && control.used + count >= enough) msp_helper_wake();
  msp_slot *slot = &control.current->slots[control.used];
  control.used += count;
  return slot;
}

bool msp_control_write_string(uint32_t id, const char *text, uint32_t length) {
  uint32_t extra = (length + MSP_SLOT_SIZE - 1) / MSP_SLOT_SIZE;
  msp_slot *slot = reserve(1 + extra);
  if (slot == NULL) return false;
  memcpy(slot + 1, text, length);
  msp_slot_commit(slot, msp_now(), 0, length, id, msp_slot_word(MSP_KIND_STRING, 0, 0, (uint8_t)extra));
  return true;
}

void msp_control_anchor(void) {
  msp_clock_pair pair = msp_clock_sample();
  uint32_t session = msp_control_lock();
  msp_slot *slot = session != 0 ? reserve(1) : NULL;
  if (slot != NULL) {
    msp_slot_commit(slot, pair.raw_ns, pair.real_ns, pair.half_width_ns, 0, msp_slot_word(MSP_KIND_ANCHOR, 0, 0, 0));
    msp_strings_write(session);
  }
  msp_control_unlock();
}

void msp_control_count_drop(bool limit) {
  msp_segment_header *header = control.first->header;
  __atomic_add_fetch(&header->dropped, 1, __ATOMIC_RELAXED);
  if (limit) __atomic_add_fetch(&header->dropped_limit, 1, __ATOMIC_RELAXED);
}

void msp_control_count_unnamed(void) { __atomic_add_fetch(&control.first->header->unnamed, 1, __ATOMIC_RELAXED); }

uint64_t msp_control_dropped(void) { return __atomic_load_n(&control.first->header->dropped, __ATOMIC_RELAXED); }

uint64_t msp_control_dropped_by_limit(void) {
  return __atomic_load_n(&control.first->header->dropped_limit, __ATOMIC_RELAXED);
}

void msp_control_prepare_spare(void) {
  msp_control_lock();
  uint32_t slots = next_slots();
  bool needed = control.spare == NULL && control.used >= enough_slots();
  msp_control_unlock();
  if (!needed) return;
  msp_segment *spare;
  if (msp_store_take_control(slots, SLOTS_LEAST, false, &spare) != MSP_TAKEN) return;
  msp_segment_touch(spare);
  msp_control_lock();
  bool taken = control.spare == NULL;
  if (taken) control.spare = spare;
  msp_control_unlock();
  if (!taken) msp_store_discard(spare);
}
