#include "store.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "clock.h"
#include "gate.h"
#include "helper.h"

#define RETRY_NS 1000000000u     /* time between two attempts while the disk or the memory is full */
#define RETIRED_MOST (32u << 20) /* bytes of written segments that wait to be copied */
#define FULL_MOST 2              /* mapped segments that wait to be unmapped */
#define PROCESS_BYTES 12288      /* disk space of the folder and of the process's record */
#define SHARE 16                 /* a segment may take 1 / SHARE of the disk space and of the memory */
#define SHORT_LEAST 128          /* smallest segment when memory is short, in slots: a page */

static struct {
  pthread_mutex_t lock;       /* protects the lists; never held during a system call on a file */
  pthread_mutex_t flush_lock; /* held by the thread that copies segments */
  char *folder;
  msp_store_settings settings;
  uint32_t most_slots;
  uint32_t next_index;
  uint64_t bytes;
  uint64_t lost; /* number of slots that were lost with a mapped file */
  int failure;
  uint64_t retry_ns;
  uint64_t memory_retry_ns; /* until this time, fine-grained events get no new segment, because memory is short */
  msp_segment *left_over;
  msp_segment *spare;
  uint32_t spare_slots; /* slots of the wanted spare segment; 0: none is wanted */
  msp_segment *written;
  uint64_t retired; /* bytes of written segments that do not change any more */
  msp_segment *full;
  uint32_t full_count;
} store = {.lock = PTHREAD_MUTEX_INITIALIZER, .flush_lock = PTHREAD_MUTEX_INITIALIZER};

static void clear(void) {
  store.left_over = store.spare = store.written = store.full = NULL;
  store.next_index = store.spare_slots = store.full_count = 0;
  store.bytes = store.lost = store.retired = store.retry_ns = store.memory_retry_ns = 0;
  store.failure = 0;
}

int msp_store_open(const msp_store_settings *settings) {
  free(store.folder);
  store.folder = strdup(settings->folder);
  if (store.folder == NULL) return ENOMEM;
  store.settings = *settings;
  store.settings.folder = store.folder;
  store.settings.mapped = settings->mapped && msp_segment_mappable(store.folder);
  msp_account_open(settings->account, settings->limit);
  uint64_t least = msp_account_limit() < settings->memory ? msp_account_limit() : settings->memory;
  uint64_t most = least / SHARE / MSP_SLOT_SIZE;
  store.most_slots = MSP_SLOTS_MOST;
  while (store.most_slots > store.settings.first_slots && store.most_slots > most) store.most_slots /= 2;
  if (store.most_slots < store.settings.first_slots) store.most_slots = store.settings.first_slots;
  if (!msp_account_take(PROCESS_BYTES, MSP_WORTH_COARSE)) {
    msp_account_refuse();
    msp_account_close();
    return EDQUOT;
  }
  clear();
  return 0;
}

/* Return the next segment in the list of written segments, whose records are copied to files. The caller need not hold
 * the lock between two calls: new segments are added in front, and only flush_written removes segments. */
static msp_segment *next_written(msp_segment *const *link) {
  pthread_mutex_lock(&store.lock);
  msp_segment *segment = *link;
  pthread_mutex_unlock(&store.lock);
  return segment;
}

static void take_out(msp_segment *segment) {
  pthread_mutex_lock(&store.lock);
  msp_segment **link = &store.written;
  while (*link != segment) link = &(*link)->next_written;
  *link = segment->next_written;
  pthread_mutex_unlock(&store.lock);
  msp_segment_release(segment);
}

/* Copy the segments of one kind to their files, and release the complete ones. `control`: those of the control stream;
 * otherwise all others. Returns the number of slots that could not be copied and are lost, which happens only with
 * `closing`. */
static uint64_t flush_kind(bool control, bool closing) {
  uint64_t lost = 0;
  for (msp_segment *segment = next_written(&store.written), *next; segment != NULL; segment = next) {
    next = next_written(&segment->next_written);
    if ((segment->header->flags == MSP_SEGMENT_CONTROL) != control) continue;
    if (control) msp_segment_make_ready(segment);
    int error = msp_segment_flush(segment, store.folder);
    if (error != 0) __atomic_store_n(&store.failure, error, __ATOMIC_RELAXED);
    if (error != 0 && closing) lost += segment->ready - segment->flushed;
    if (!closing && (!segment->complete || error != 0)) continue;
    if (segment->complete) __atomic_sub_fetch(&store.retired, segment->size, __ATOMIC_RELAXED);
    take_out(segment);
  }
  return lost;
}

/* Copy all written segments to their files. The control stream, which has the strings, comes before the events. So no
 * file has an event whose strings are in no file. Called with flush_lock held. */
static uint64_t flush_written(bool closing) {
  for (msp_segment *segment = next_written(&store.written); segment != NULL;
       segment = next_written(&segment->next_written)) {
    msp_segment_make_ready(segment);
  }
  flush_kind(true, closing);
  return flush_kind(false, closing);
}

static void give_back(uint64_t bytes) {
  msp_account_add(-(int64_t)bytes);
  __atomic_sub_fetch(&store.bytes, bytes, __ATOMIC_RELAXED);
}

static void count_lost(const msp_segment *segment, uint32_t used) {
  uint32_t lost = msp_segment_lost(segment, used);
  if (lost == 0) return;
  __atomic_add_fetch(&store.lost, lost, __ATOMIC_RELAXED);
  __atomic_store_n(&store.failure, EIO, __ATOMIC_RELAXED);
}

void msp_store_end(msp_segment *segment, uint32_t used) {
  count_lost(segment, used);
  give_back(msp_segment_trim(store.folder, segment, used));
  if (!segment->mapped) {
    __atomic_add_fetch(&store.retired, segment->size, __ATOMIC_RELAXED);
    __atomic_store_n(&segment->retired, true, __ATOMIC_RELEASE);
  }
  msp_segment_release(segment);
}

/* Remove the spare segment, which may have taken the last room. Returns its slots; 0: there is none. */
static uint32_t give_up_spare(void) {
  pthread_mutex_lock(&store.flush_lock); /* no other thread copies the segment to its file meanwhile */
  pthread_mutex_lock(&store.lock);
  msp_segment *spare = store.spare;
  store.spare = NULL;
  pthread_mutex_unlock(&store.lock);
  uint32_t slots = spare == NULL ? 0 : spare->capacity;
  if (spare != NULL) msp_store_discard(spare);
  pthread_mutex_unlock(&store.flush_lock);
  return slots;
}

uint64_t msp_store_close(void) {
  give_up_spare();
  msp_store_unmap_full();
  while (store.left_over != NULL) {
    msp_segment *segment = store.left_over;
    store.left_over = segment->next;
    if (segment->used == 0) {
      msp_store_discard(segment);
    } else {
      msp_store_end(segment, segment->used);
    }
  }
  uint64_t lost = flush_written(true) + store.lost;
  msp_account_close();
  return lost;
}

void msp_store_abandon(bool refused) {
  if (refused) msp_account_refuse();
  msp_account_add(-PROCESS_BYTES);
  msp_account_close();
}

void msp_store_after_fork(void) {
  pthread_mutex_init(&store.lock, NULL);
  pthread_mutex_init(&store.flush_lock, NULL);
  msp_segment_after_fork();
  clear();
}

void msp_store_ask(void) {
  struct statvfs unused;
  statvfs(store.folder, &unused);
}

uint64_t msp_store_memory(void) { return store.settings.memory; }
uint32_t msp_store_first_slots(void) { return store.settings.first_slots; }
uint32_t msp_store_most_slots(void) { return store.most_slots; }
uint64_t msp_store_bytes(void) { return __atomic_load_n(&store.bytes, __ATOMIC_RELAXED); }
int msp_store_failure(void) { return __atomic_load_n(&store.failure, __ATOMIC_RELAXED); }

/* Count the disk space of a new segment in the account. If there is no room for `slots` slots, halve the number, but
 * not below `least`. Returns the number of slots; 0: there is no room. When the account reaches the limit for events of
 * some priority, these events are refused from now on, even if a segment has room for them. */
static uint32_t charge(uint32_t slots, uint32_t least, msp_worth worth) {
  while (!msp_account_take(msp_segment_size(slots), worth)) {
    if (slots / 2 < least) return 0;
    slots /= 2;
  }
  __atomic_add_fetch(&store.bytes, msp_segment_size(slots), __ATOMIC_RELAXED);
  if (msp_account_left(MSP_WORTH_FINE) == 0) msp_gate_set_refused(MSP_REFUSE_FINE_LIMIT, true);
  if (msp_account_left(MSP_WORTH_COARSE) == 0) msp_gate_set_refused(MSP_REFUSE_ALL_LIMIT, true);
  return slots;
}

/* Halve `slots` until a segment fits into the memory that is left. Returns 0 if not even a page fits. */
static uint32_t fit(uint32_t slots, msp_worth worth) {
  uint64_t most = store.settings.memory, taken = msp_segment_memory();
  if (worth == MSP_WORTH_FINE) most -= most / 4;
  while (taken + msp_segment_size(slots) > most) {
    if (slots / 2 < SHORT_LEAST) return 0;
    slots /= 2;
  }
  return slots;
}

/* Make a segment that the account counts; NULL on failure. If it was `needed`, nobody tries again for a while. */
static msp_segment *make(uint32_t slots, uint32_t flags, bool needed) {
  uint32_t index = __atomic_fetch_add(&store.next_index, 1, __ATOMIC_RELAXED);
  msp_segment *segment = NULL;
  bool waits = __atomic_load_n(&store.retired, __ATOMIC_RELAXED) >= RETIRED_MOST;
  int error = waits ? ENOBUFS : msp_segment_make(store.folder, index, slots, flags, store.settings.mapped, &segment);
  if (error != 0) give_back(msp_segment_size(slots));
  pthread_mutex_lock(&store.lock);
  if (error != 0) {
    __atomic_store_n(&store.failure, error, __ATOMIC_RELAXED);
    if (needed) store.retry_ns = msp_now() + RETRY_NS;
  } else if (!segment->mapped) {
    segment->holders = 2;
    segment->next_written = store.written;
    store.written = segment;
  }
  pthread_mutex_unlock(&store.lock);
  if (error == 0 && !segment->mapped) msp_helper_wake();
  return segment;
}

/* Remove a suitable segment from the lists of left-over and spare segments, and return it; NULL: none is suitable.
 * `short_of_disk`: a segment of any size is suitable, because it may have taken the last room on the disk. Called with
 * the lock held. */
static msp_segment *find(uint32_t slots, bool first, bool short_of_disk) {
  msp_segment *found = store.left_over;
  if (found != NULL && (first || found->capacity - found->used >= (short_of_disk ? 1 : slots))) {
    store.left_over = found->next;
  } else if (store.spare != NULL && (short_of_disk || store.spare->capacity == slots)) {
    found = store.spare;
    store.spare = NULL;
  } else {
    return NULL;
  }
  found->next = NULL;
  return found;
}

msp_outcome msp_store_take(uint32_t slots, msp_worth worth, bool first, msp_segment **taken) {
  if (slots > store.most_slots) slots = store.most_slots;
  pthread_mutex_lock(&store.lock);
  bool short_of_disk = store.retry_ns != 0 && msp_now() < store.retry_ns;
  msp_segment *segment = find(slots, first, short_of_disk);
  bool wait = segment == NULL && short_of_disk;
  bool full = segment == NULL && worth == MSP_WORTH_FINE && msp_now() < store.memory_retry_ns;
  if (!wait && !full) store.spare_slots = slots < store.most_slots / 2 ? 2 * slots : store.most_slots;
  pthread_mutex_unlock(&store.lock);
  if (wait) return MSP_REFUSED_BY_DISK;
  if (full) return MSP_REFUSED_BY_MEMORY;
  if (segment == NULL) {
    uint32_t fitting = fit(slots, worth);
    if (fitting == 0) {
      pthread_mutex_lock(&store.lock);
      store.failure = MSP_FAILURE_MEMORY;
      store.memory_retry_ns = msp_now() + RETRY_NS;
      pthread_mutex_unlock(&store.lock);
      return MSP_REFUSED_BY_MEMORY;
    }
    uint32_t least = store.settings.first_slots;
    uint32_t granted = charge(fitting, fitting < least ? fitting : least, worth);
    if (granted == 0) {
      msp_gate_set_refused(worth == MSP_WORTH_FINE ? MSP_REFUSE_FINE_LIMIT : MSP_REFUSE_ALL_LIMIT, true);
      return MSP_REFUSED_BY_LIMIT;
    }
    segment = make(granted, 0, true);
    if (segment == NULL) return msp_store_take(slots, worth, first, taken); /* takes a segment of any size, if any */
  }
  msp_helper_wake();
  *taken = segment;
  return MSP_TAKEN;
}

static msp_outcome make_control(uint32_t slots, uint32_t least, bool needed, msp_segment **made) {
  slots = charge(slots, least, MSP_WORTH_ALWAYS);
  if (slots == 0) return MSP_REFUSED_BY_LIMIT;
  *made = make(slots, MSP_SEGMENT_CONTROL, needed);
  return *made != NULL ? MSP_TAKEN : MSP_REFUSED_BY_DISK;
}

msp_outcome msp_store_take_control(uint32_t slots, uint32_t least, bool needed, msp_segment **taken) {
  pthread_mutex_lock(&store.lock);
  bool wait = store.retry_ns != 0 && msp_now() < store.retry_ns;
  pthread_mutex_unlock(&store.lock);
  msp_outcome outcome = wait ? MSP_REFUSED_BY_DISK : make_control(slots, least, needed, taken);
  uint32_t room = needed && outcome == MSP_REFUSED_BY_DISK ? give_up_spare() : 0;
  if (room == 0) return outcome;
  if (room < slots) slots = room < least ? least : room;
  return make_control(slots, least, needed, taken);
}

void msp_store_leave_over(msp_segment *segment, uint32_t used) {
  segment->used = used;
  pthread_mutex_lock(&store.lock);
  segment->next = store.left_over;
  store.left_over = segment;
  pthread_mutex_unlock(&store.lock);
}

void msp_store_retire(msp_segment *segment) {
  count_lost(segment, segment->capacity);
  if (!segment->mapped) {
    __atomic_add_fetch(&store.retired, segment->size, __ATOMIC_RELAXED);
    __atomic_store_n(&segment->retired, true, __ATOMIC_RELEASE);
    msp_helper_wake();
    if (!msp_helper_runs()) msp_store_flush();
    msp_segment_release(segment);
    return;
  }
  pthread_mutex_lock(&store.lock);
  bool later = msp_helper_runs() && store.full_count < FULL_MOST;
  if (later) {
    segment->next = store.full;
    store.full = segment;
    ++store.full_count;
  }
  pthread_mutex_unlock(&store.lock);
  if (!later) msp_segment_release(segment);
  if (later) msp_helper_wake();
}

void msp_store_unmap_full(void) {
  pthread_mutex_lock(&store.lock);
  msp_segment *segment = store.full;
  store.full = NULL;
  store.full_count = 0;
  pthread_mutex_unlock(&store.lock);
  for (msp_segment *next; segment != NULL; segment = next) {
    next = segment->next;
    msp_segment_release(segment);
  }
}

void msp_store_discard(msp_segment *segment) {
  msp_segment_unlink(store.folder, segment->index);
  give_back(segment->size);
  if (!segment->mapped) {
    segment->flushed = segment->ready = segment->capacity; /* nothing to copy */
    __atomic_add_fetch(&store.retired, segment->size, __ATOMIC_RELAXED);
    __atomic_store_n(&segment->retired, true, __ATOMIC_RELEASE);
  }
  msp_segment_release(segment);
}

void msp_store_prepare_spare(void) {
  pthread_mutex_lock(&store.lock);
  uint32_t slots = store.spare_slots;
  msp_segment *unwanted = NULL;
  if (slots != 0 && store.spare != NULL && store.spare->capacity != slots) {
    unwanted = store.spare; /* the next new thread will take the spare segment */
    store.spare = NULL;
  }
  bool needed = slots != 0 && store.spare == NULL && msp_now() >= store.retry_ns;
  store.spare_slots = 0;
  pthread_mutex_unlock(&store.lock);
  if (needed) {
    uint32_t refused = msp_gate_load(&msp_gate_page->refuse);
    msp_worth worth = refused & MSP_REFUSE_FINE_LIMIT ? MSP_WORTH_COARSE : MSP_WORTH_FINE;
    /* otherwise the writer makes a smaller one */
    needed = fit(slots, worth) == slots && charge(slots, slots, worth) != 0;
  }
  if (unwanted != NULL) msp_store_leave_over(unwanted, 0);
  if (!needed) return;
  msp_segment *segment = make(slots, 0, false);
  if (segment == NULL) return;
  msp_segment_touch(segment);
  pthread_mutex_lock(&store.lock);
  store.spare = segment;
  pthread_mutex_unlock(&store.lock);
}

void msp_store_flush(void) {
  pthread_mutex_lock(&store.flush_lock);
  flush_written(false);
  pthread_mutex_unlock(&store.flush_lock);
}

bool msp_store_has_written(void) {
  pthread_mutex_lock(&store.lock);
  bool some = store.written != NULL;
  pthread_mutex_unlock(&store.lock);
  return some;
}
