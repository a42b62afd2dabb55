#include "blocks.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "imports.h"
#include "writer.h"

#define SHARDS 16u
#define FIRST_ROOM 256u
#define ROOM_MOST (1u << 17) /* entries of one part of the table; all parts together: 32 MiB, a million blocks */
#define SPREAD 0x9E3779B97F4A7C15u

typedef struct {
  uintptr_t address; /* 0: free */
  uint64_t size;     /* twice the size, plus one if its allocation was recorded */
} block;

/* A part of the table of blocks in use: a hash table with open addressing and linear probing, at most half full. Each
 * part has a lock of its own. */
typedef struct {
  pthread_mutex_t lock; /* held for a few instructions, and while a table of at most 2 MiB is copied */
  block *table;
  uint32_t room, used;
} __attribute__((aligned(64))) shard;

static struct {
  shard shards[SHARDS];
  bool on, has_locks;
  uint64_t least;
  msp_import align, release;
  int (*aligned)(void **, size_t, size_t);
  void (*freed)(void *);
  uint64_t live, peak, made, gone, lost;
  void (*taken)(uint64_t, uintptr_t);
} blocks = {.aligned = posix_memalign, .freed = free};

static uint64_t spread(uintptr_t address) { return (address >> 4) * SPREAD; }

static shard *shard_of(uint64_t key) { return &blocks.shards[key >> 60]; }

static uint32_t first_of(const shard *of, uint64_t key) { return (uint32_t)(key >> 28) & (of->room - 1); }

/* Return the table's entry for an address, or the free entry where the address would be. Called with the lock held,
 * when there is a table. */
static block *place_of(const shard *of, uintptr_t address) {
  uint32_t at = first_of(of, spread(address));
  while (of->table[at].address != 0 && of->table[at].address != address) at = (at + 1) & (of->room - 1);
  return &of->table[at];
}

static bool grow(shard *of) {
  uint32_t room = of->room == 0 ? FIRST_ROOM : 2 * of->room;
  block *before = of->table, *table = room <= ROOM_MOST ? calloc(room, sizeof *table) : NULL;
  if (table == NULL) return false;
  uint32_t count = of->room;
  of->table = table;
  of->room = room;
  for (uint32_t i = 0; i < count; ++i) {
    if (before[i].address != 0) *place_of(of, before[i].address) = before[i];
  }
  free(before);
  return true;
}

/* Add a block to the table. If the release of an older block at this address was missed, returns the field `size` of
 * the older block; otherwise 0. */
static uint64_t add(uintptr_t address, uint64_t size) {
  shard *of = shard_of(spread(address));
  uint64_t before = 0;
  pthread_mutex_lock(&of->lock);
  if (2 * of->used >= of->room && !grow(of)) {
    __atomic_add_fetch(&blocks.lost, 1, __ATOMIC_RELAXED);
  } else {
    block *entry = place_of(of, address);
    before = entry->size;
    of->used += entry->address == 0;
    *entry = (block){address, size};
  }
  pthread_mutex_unlock(&of->lock);
  return before;
}

/* Remove the entry `at` of a hash table, and move later entries into the gap. A search ends at the first gap, so
 * without this move it would miss these entries. */
static void close_gap(shard *of, uint32_t at) {
  const uint32_t mask = of->room - 1;
  for (uint32_t next = (at + 1) & mask; of->table[next].address != 0; next = (next + 1) & mask) {
    uint32_t wanted = first_of(of, spread(of->table[next].address));
    if (((next - wanted) & mask) < ((next - at) & mask)) continue;
    of->table[at] = of->table[next];
    at = next;
  }
  of->table[at] = (block){0, 0};
}

static bool take(uintptr_t address, uint64_t *size) {
  shard *of = shard_of(spread(address));
  bool found = false;
  pthread_mutex_lock(&of->lock);
  if (of->used > 0) {
    block *entry = place_of(of, address);
    found = entry->address != 0;
    if (found) {
      *size = entry->size;
      close_gap(of, (uint32_t)(entry - of->table));
      --of->used;
    }
  }
  pthread_mutex_unlock(&of->lock);
  return found;
}

/* Write a record of an allocated or released block. It is not written while events are refused for one of the reasons
 * `refused`. Returns the time of the record; 0 if it was not written. */
static uint64_t put(uintptr_t address, uint64_t size, uint64_t live, uint8_t flags, uint32_t refused) {
  msp_writer *writer = msp_writer_get();
  if (writer == NULL || msp_gate_load(&writer->gate->refuse) & refused) return 0;
  msp_slot *slot = msp_writer_slot(writer, MSP_WORTH_FINE);
  if (slot == NULL) return 0;
  uint64_t now = msp_tsc_now(&writer->tsc);
  msp_slot_commit(slot, now, (uint64_t)address | size >> 32 << MSP_BLOCK_BITS, live, (uint32_t)size,
                  msp_slot_word(MSP_KIND_BLOCK, MSP_CATEGORY_BLOCK, flags, 0));
  return now;
}

static bool counts(void) {
  /* `alive` is 0 in a fork child that a direct system call made. No fork handlers ran in this child, so nobody has
   * reset the locks. A lock that another thread of the parent held stays locked for ever. So such a child counts no
   * blocks. */
  return __atomic_load_n(&blocks.on, __ATOMIC_RELAXED) && msp_gate_load(&msp_gate_page->alive) != 0;
}

static void rise(uint64_t live) {
  uint64_t peak = __atomic_load_n(&blocks.peak, __ATOMIC_RELAXED);
  while (live > peak &&
         !__atomic_compare_exchange_n(&blocks.peak, &peak, live, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

static int aligned(void **memory, size_t alignment, size_t size) {
  int error = blocks.aligned(memory, alignment, size);
  if (error != 0 || size == 0 || !counts()) return error;
  int errno_before = errno;
  uintptr_t address = (uintptr_t)*memory;
  uint64_t live = __atomic_add_fetch(&blocks.live, size, __ATOMIC_RELAXED);
  __atomic_add_fetch(&blocks.made, 1, __ATOMIC_RELAXED);
  rise(live);
  uint64_t time_ns = size >= blocks.least ? put(address, size, live, 0, UINT32_MAX) : 0;
  void (*taken)(uint64_t, uintptr_t) = __atomic_load_n(&blocks.taken, __ATOMIC_ACQUIRE);
  if (taken != NULL && time_ns != 0) taken(time_ns, address);
  uint64_t before = add(address, (uint64_t)size << 1 | (time_ns != 0));
  if (before != 0) __atomic_sub_fetch(&blocks.live, before >> 1, __ATOMIC_RELAXED);
  errno = errno_before;
  return error;
}

/* The function that replaces free(). It removes the block from the table before it releases the memory: after the
 * release, another thread may get a block at the same address. */
static void freed(void *memory) {
  uint64_t size;
  if (memory != NULL && counts() && take((uintptr_t)memory, &size)) {
    int errno_before = errno;
    uint64_t live = __atomic_sub_fetch(&blocks.live, size >> 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&blocks.gone, 1, __ATOMIC_RELAXED);
    /* write the release even in a step that is not sampled: otherwise the block would seem to be in use for ever */
    if (size & 1) put((uintptr_t)memory, size >> 1, live, MSP_BLOCK_RELEASED, MSP_REFUSE_ALL_LIMIT);
    errno = errno_before;
  }
  blocks.freed(memory);
}

static void make_locks(void) {
  for (uint32_t i = 0; i < SHARDS; ++i) pthread_mutex_init(&blocks.shards[i].lock, NULL);
  blocks.has_locks = true;
}

static void forget(void) {
  for (uint32_t i = 0; i < SHARDS; ++i) {
    shard *of = &blocks.shards[i];
    pthread_mutex_lock(&of->lock);
    free(of->table);
    of->table = NULL;
    of->room = of->used = 0;
    pthread_mutex_unlock(&of->lock);
  }
  blocks.live = blocks.peak = blocks.made = blocks.gone = blocks.lost = 0;
}

const char *msp_blocks_watch(const char *library, uint64_t least) {
  msp_import align, release;
  if (blocks.on) return NULL;
  blocks.least = least;
  const char *why = msp_import_find(library, "posix_memalign", &align);
  if (why == NULL) why = msp_import_find(library, "free", &release);
  if (why != NULL) return why;
  if (!blocks.has_locks) make_locks();
  /* When another tool has replaced the imports before, our functions call the functions of this tool, which call those
   * of the C library. But an entry that is still lazy refers to code of the linker. This code would look the function
   * up and overwrite our entry. In this case, our functions call the C library directly. */
  if (msp_import_get(&align) != (void *)aligned) {
    blocks.align = align;
    blocks.aligned = align.lazy ? posix_memalign : (int (*)(void **, size_t, size_t))align.before;
  }
  if (msp_import_get(&release) != (void *)freed) {
    blocks.release = release;
    blocks.freed = release.lazy ? free : (void (*)(void *))release.before;
  }
  forget();
  /* replace `free` first: a block that is allocated before `free` is replaced could be released unseen, and would count
   * for ever */
  if (msp_import_set(&blocks.release, (void *)freed) != 0) return "cannot be given other imports";
  if (msp_import_set(&blocks.align, (void *)aligned) != 0) {
    msp_import_set(&blocks.release, blocks.release.before);
    return "cannot be given other imports";
  }
  __atomic_store_n(&blocks.on, true, __ATOMIC_RELEASE);
  return NULL;
}

void msp_blocks_leave(void) {
  if (!blocks.on) return;
  __atomic_store_n(&blocks.on, false, __ATOMIC_RELEASE);
  if (msp_import_get(&blocks.align) == (void *)aligned) msp_import_set(&blocks.align, blocks.align.before);
  if (msp_import_get(&blocks.release) == (void *)freed) msp_import_set(&blocks.release, blocks.release.before);
  forget();
}

void msp_blocks_when_taken(void (*call)(uint64_t, uintptr_t)) {
  __atomic_store_n(&blocks.taken, call, __ATOMIC_RELEASE);
}

void msp_blocks_count(msp_blocks_counts *counts) {
  uint64_t live = __atomic_load_n(&blocks.live, __ATOMIC_RELAXED);
  *counts = (msp_blocks_counts){
      .live = live,
      .peak = __atomic_exchange_n(&blocks.peak, live, __ATOMIC_RELAXED),
      .made = __atomic_load_n(&blocks.made, __ATOMIC_RELAXED),
      .freed = __atomic_load_n(&blocks.gone, __ATOMIC_RELAXED),
      .lost = __atomic_load_n(&blocks.lost, __ATOMIC_RELAXED),
      .intact = blocks.on && msp_import_get(&blocks.align) == (void *)aligned &&
                msp_import_get(&blocks.release) == (void *)freed,
  };
}

void msp_blocks_after_fork(void) {
  blocks.on = false;
  blocks.taken = NULL;
  make_locks();
}
