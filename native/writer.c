#include "writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calls.h"
#include "control.h"
#include "helper.h"
#include "hot.h"
#include "recorder.h"
#include "thread.h"

#define LABEL_MOST 255
#define LEFT_OVER_LEAST 4   /* a smaller rest is not kept for the next thread, which needs a slot for its name */
#define SCRATCH_SLOTS 16384 /* 512 KiB: larger than the first-level cache, as a store is */

__thread msp_writer *msp_writer_current;

static pthread_key_t key; /* its destructor runs when a thread ends */

static struct {
  pthread_mutex_t lock;
  uint32_t session; /* the session that is open, or was closed last */
  msp_writer *first;
  uint64_t records; /* records of threads that ended */
  uint32_t threads;
} writers = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const msp_gate scratch_gate = {.session = 1, .alive = 1};

static bool empty(const msp_writer *writer) { return writer->segment == NULL; }

static void clear(msp_writer *writer) {
  writer->session = 0;
  writer->depth = writer->ops = writer->number = writer->wanted = 0;
  writer->segment = NULL;
  writer->next = writer->limit = NULL;
  writer->previous = writer->following = NULL;
  writer->looks = (msp_looks){0};
  msp_calls_forget(writer->calls);
  __atomic_store_n(&writer->records, 0, __ATOMIC_RELAXED);
}

/* Remove the writer from the list of its session, and add its records to the session's count. Do nothing if another
 * session has been opened since. */
static void delist(msp_writer *writer) {
  pthread_mutex_lock(&writers.lock);
  if (writer->number != 0 && writer->session == writers.session) {
    if (writer->previous != NULL) {
      writer->previous->following = writer->following;
    } else {
      writers.first = writer->following;
    }
    if (writer->following != NULL) writer->following->previous = writer->previous;
    writers.records += writer->records;
  }
  pthread_mutex_unlock(&writers.lock);
}

/* Leave a session that another thread has closed. The store's lists are gone, but this thread still has to release its
 * segments (files of records). */
static void leave_closed(msp_writer *writer) {
  msp_segment *last = writer->segment;
  for (uint32_t i = writer->depth; i-- > 0;) { /* the open spans of a segment are adjacent in this list */
    if (writer->open[i].segment == last) continue;
    last = writer->open[i].segment;
    msp_segment_release(last);
  }
  if (!empty(writer)) msp_segment_release(writer->segment);
  delist(writer);
  clear(writer);
}

/* Leave an open session, because the thread ends. The caller holds the session. */
static void leave_open(msp_writer *writer) {
  uint64_t now = msp_tsc_now(&writer->tsc);
  if (writer->calls != NULL) msp_calls_cut(writer->calls, now);
  while (writer->depth > 0) msp_writer_end_last(writer, now, MSP_FLAG_ABANDONED);
  if (!empty(writer)) {
    if (writer->limit - writer->next >= LEFT_OVER_LEAST) {
      msp_store_leave_over(writer->segment, (uint32_t)(writer->next - writer->segment->slots));
    } else {
      msp_store_retire(writer->segment);
    }
  }
  delist(writer);
  clear(writer);
}

static void thread_ends(void *value) {
  msp_writer *writer = value;
  msp_recorder_check_fork();
  msp_calls_unlist(writer->calls);
  if (msp_gate_hold(writer->session)) {
    leave_open(writer);
    msp_gate_let_go();
  } else {
    leave_closed(writer);
  }
  msp_writer_current = NULL;
  msp_calls_free(writer->calls);
  free(writer->label);
  free(writer);
}

int msp_writer_init(void) { return pthread_key_create(&key, thread_ends); }

void msp_writer_after_fork(void) {
  pthread_mutex_init(&writers.lock, NULL);
  msp_writer_reset(0);
  msp_writer_scratch(false);
  msp_calls_after_fork(msp_writer_current == NULL ? NULL : msp_writer_current->calls);
  if (msp_writer_current == NULL) return;
  clear(msp_writer_current);
  msp_writer_current->tsc = (msp_tsc){0}; /* the child may be in another time namespace */
}

void msp_writer_reset(uint32_t session) {
  pthread_mutex_lock(&writers.lock);
  writers.session = session;
  writers.first = NULL;
  writers.records = 0;
  writers.threads = 0;
  pthread_mutex_unlock(&writers.lock);
}

static msp_writer *make_writer(void) {
  msp_writer *writer = calloc(1, sizeof *writer);
  if (writer == NULL) return NULL;
  writer->gate = msp_gate_page;
  /* serial numbers of threads begin at different values, so that a token of another thread does not fit */
  writer->serial = (uint32_t)((uintptr_t)writer >> 4) * 0x9E3779B1u;
  if (pthread_setspecific(key, writer) != 0) {
    free(writer);
    return NULL;
  }
  msp_writer_current = writer;
  return writer;
}

msp_writer *msp_writer_enter(void) {
  msp_recorder_check_fork();
  uint32_t session = msp_gate_load(&msp_gate_page->session);
  msp_writer *writer = msp_writer_current;
  if (writer != NULL && writer->session != session) leave_closed(writer);
  if (session == 0) return NULL;
  if (writer == NULL) writer = make_writer();
  if (writer != NULL) writer->session = session;
  return writer;
}

/* Add the writer to the list of the session. The caller holds the session. */
static void enlist(msp_writer *writer) {
  pthread_mutex_lock(&writers.lock);
  writer->number = ++writers.threads;
  writer->tid = (int)syscall(SYS_gettid);
  writer->previous = NULL;
  writer->following = writers.first;
  if (writers.first != NULL) writers.first->previous = writer;
  writers.first = writer;
  pthread_mutex_unlock(&writers.lock);
}

static uint32_t name_id(const msp_writer *writer) {
  if (writer->label != NULL) return msp_intern(writer->label, writer->label_length, MSP_OF_THE_JOB, 0);
  char name[16] = "";
  if (pthread_getname_np(pthread_self(), name, sizeof name) != 0) return 0;
  /* the system may have cut the name inside a character */
  return msp_intern(name, msp_whole_characters(name, strlen(name)), MSP_OF_THE_JOB, 0);
}

static void write_thread(msp_writer *writer, uint32_t name) {
  uint64_t tid = (uint64_t)syscall(SYS_gettid);
  uint64_t now = msp_tsc_now(&writer->tsc);
  msp_slot_commit(writer->next++, now, tid, writer->number, name, msp_slot_word(MSP_KIND_THREAD, 0, 0, 0));
}

/* Get a segment for the next records of this thread. The caller holds the session. */
static bool take_segment(msp_writer *writer, msp_worth worth) {
  if (writer->wanted == 0) writer->wanted = msp_store_first_slots();
  msp_segment *segment;
  bool first = empty(writer);
  msp_outcome outcome = msp_store_take(writer->wanted, worth, first, &segment);
  if (outcome != MSP_TAKEN) {
    msp_control_count_drop(outcome == MSP_REFUSED_BY_LIMIT);
    return false;
  }
  /* On a full disk, the store gives what it has. A larger wish than the refused one might never fit again. */
  bool enough = first || segment->capacity - segment->used >= writer->wanted;
  if (enough && writer->wanted < MSP_SLOTS_MOST) writer->wanted *= 2;
  if (writer->number == 0) enlist(writer);
  msp_segment *full = writer->segment;
  writer->segment = segment;
  writer->next = segment->slots + segment->used;
  writer->limit = segment->slots + segment->capacity;
  if (full != NULL) msp_writer_settle(writer, full);
  write_thread(writer, name_id(writer));
  return true;
}

bool msp_writer_extend(msp_writer *writer, msp_worth worth) {
  if (writer->gate == &scratch_gate) { /* the private memory is full: write at its start again */
    writer->next -= SCRATCH_SLOTS;
    return true;
  }
  if (!msp_gate_hold(writer->session)) return false;
  bool taken = take_segment(writer, worth);
  msp_gate_let_go();
  return taken;
}

/* Release a full segment (a file of records) if no span in it is open. Open spans are in the order of their segments,
 * so this checks only the last open span. */
void msp_writer_settle(msp_writer *writer, msp_segment *segment) {
  if (writer->depth > 0 && writer->open[writer->depth - 1].segment == segment) return;
  if (msp_gate_hold(writer->session)) {
    msp_store_retire(segment);
    msp_gate_let_go();
  } else {
    msp_segment_release(segment);
  }
}

void msp_writer_drop(const msp_writer *writer) {
  if (!msp_gate_hold(writer->session)) return;
  msp_control_count_drop(false);
  msp_gate_let_go();
}

/* Record the thread's processor time and wait time so far. `before` is the time of the event before this one. */
void msp_writer_look(msp_writer *writer, uint64_t now, uint64_t before) {
  msp_looks *looks = &writer->looks;
  uint32_t refuse = msp_gate_load(&writer->gate->refuse);
  bool early = now - before < MSP_REST_QUIET_NS && now - looks->looked_ns < MSP_REST_LOOK_NS;
  if (early && (refuse & MSP_REFUSE_FINE) != 0) return;
  looks->due_ns = now + MSP_LOOK_NS;
  if (writer->gate == &scratch_gate || (refuse & ~MSP_REFUSE_FINE) != 0) return;
  int reason = errno;
  uint64_t ran = msp_clock_read(CLOCK_THREAD_CPUTIME_ID);
  uint32_t queued = msp_looks_waited(looks, now, ran);
  errno = reason;
  looks->looked_ns = now;
  if (writer->next == writer->limit && !msp_writer_extend(writer, MSP_WORTH_COARSE)) return;
  msp_slot_commit(writer->next++, now, before == 0 ? now : before, ran, queued,
                  msp_slot_word(MSP_KIND_PROCESSOR, 0, 0, 0)); /* not in `records`: it is no event of the job */
}

bool msp_writer_refuses(uint32_t refuse, uint8_t category) {
  if (refuse & MSP_REFUSE_PAUSED) return true;
  bool fine = (category & MSP_CATEGORY_FINE) != 0;
  if (!(refuse & MSP_REFUSE_ALL_LIMIT) && !(fine && refuse & MSP_REFUSE_FINE_LIMIT)) {
    return fine && (refuse & MSP_REFUSE_FINE) != 0; /* does not count as dropped: the step is not sampled */
  }
  if (msp_gate_hold(msp_gate_load(&msp_gate_page->session))) {
    msp_control_count_drop(true);
    msp_gate_let_go();
  }
  return true;
}

MSP_HOT bool msp_record(uint8_t kind, uint8_t category, uint8_t flags, uint32_t name, uint64_t start_ns,
                        uint64_t end_ns, uint64_t arg) {
  bool span = kind == MSP_KIND_SPAN || kind == MSP_KIND_STEP || kind == MSP_KIND_OPERANDS;
  if (!span && kind != MSP_KIND_INSTANT && kind != MSP_KIND_COUNTER) return false;
  msp_writer *writer = msp_writer_get();
  if (writer == NULL) return false;
  msp_worth worth = kind == MSP_KIND_STEP ? MSP_WORTH_ALWAYS : msp_worth_of(category);
  uint32_t refuse = msp_gate_load(&writer->gate->refuse) & ~MSP_REFUSE_PAUSED;
  if (refuse != 0 && worth != MSP_WORTH_ALWAYS && msp_writer_refuses(refuse, category)) return false;
  msp_slot *slot = msp_writer_slot(writer, worth);
  if (slot == NULL) return false;
  msp_slot_commit(slot, start_ns, end_ns, arg, name, msp_slot_word(kind, category, flags, 0));
  if (kind == MSP_KIND_STEP) {
    msp_helper_revive();
    uint64_t now = msp_tsc_now(&writer->tsc), before = writer->looks.event_ns;
    writer->looks.event_ns = now;
    if (msp_looks_due(&writer->looks, before, now, (refuse & MSP_REFUSE_FINE) != 0)) {
      msp_writer_look(writer, now, before);
    }
  }
  return true;
}

void msp_writer_name(const char *text, size_t length) {
  msp_recorder_check_fork();
  msp_writer *writer = msp_writer_current != NULL ? msp_writer_get() : NULL;
  if (writer == NULL) writer = msp_writer_current != NULL ? msp_writer_current : make_writer();
  if (writer == NULL || writer->gate == &scratch_gate) return;
  if (length > LABEL_MOST) length = msp_whole_characters(text, LABEL_MOST);
  char *label = malloc(length + 1);
  if (label == NULL) return;
  memcpy(label, text, length);
  free(writer->label);
  writer->label = label;
  writer->label_length = length;
  /* if the store already has a name of this thread, write the new name */
  if (!empty(writer) && writer->next < writer->limit && msp_gate_hold(writer->session)) {
    write_thread(writer, name_id(writer));
    msp_gate_let_go();
  }
}

void msp_writer_end_all(void) {
  msp_writer *writer = msp_writer_current != NULL ? msp_writer_get() : NULL;
  if (writer == NULL) return;
  uint64_t now = msp_tsc_now(&writer->tsc);
  while (writer->depth > 0) msp_writer_end_last(writer, now, 0);
}

void msp_writer_leave(void) {
  msp_writer *writer = msp_writer_current;
  if (writer == NULL || writer->session == msp_gate_load(&writer->gate->session)) return;
  if (writer->session == writers.session && writer->depth == 0 && !empty(writer)) {
    msp_store_end(writer->segment, (uint32_t)(writer->next - writer->segment->slots));
    writer->segment = NULL;
  }
  leave_closed(writer);
}

uint64_t msp_writer_records(bool *rest) {
  pthread_mutex_lock(&writers.lock);
  uint64_t records = writers.records;
  if (rest != NULL) *rest = true;
  for (msp_writer *writer = writers.first; writer != NULL; writer = writer->following) {
    records += __atomic_load_n(&writer->records, __ATOMIC_RELAXED);
    if (rest != NULL && writer != msp_writer_current && !msp_thread_sleeps(writer->tid)) *rest = false;
  }
  pthread_mutex_unlock(&writers.lock);
  return records;
}

uint32_t msp_writer_threads(void) {
  pthread_mutex_lock(&writers.lock);
  uint32_t threads = writers.threads;
  pthread_mutex_unlock(&writers.lock);
  return threads;
}

bool msp_writer_scratch(bool on) {
  const size_t size = SCRATCH_SLOTS * sizeof(msp_slot);
  msp_writer *writer = msp_writer_current;
  bool is_on = writer != NULL && writer->gate == &scratch_gate;
  if (is_on == on) return true;
  if (!on) {
    msp_writer_current = writer->following;
    munmap(writer->limit - SCRATCH_SLOTS, size);
    free(writer);
    return true;
  }
  msp_writer *scratch = calloc(1, sizeof *scratch);
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (scratch == NULL || memory == MAP_FAILED) {
    if (memory != MAP_FAILED) munmap(memory, size);
    free(scratch);
    return false;
  }
  scratch->gate = &scratch_gate;
  scratch->session = scratch_gate.session;
  scratch->next = memory;
  scratch->limit = scratch->next + SCRATCH_SLOTS;
  scratch->following = writer;
  msp_writer_current = scratch;
  return true;
}
