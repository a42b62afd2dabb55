#include "stacks.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "file_format.h"
#include "writer.h"

/* With these limits, the nodes of the tree of stacks take at most 2 MiB in the store and 5 MiB of memory. */
#define NODES_MOST 65536u
#define PLACES_MOST 131072u
#define FIRST_CELLS 1024u
#define QUEUED 2048u      /* entries in the queue; the writer empties it every hundredth of a second */
#define TOGETHER_MOST 25u /* largest number of samples in one record: a kill may lose so many */
#define RUNS 64u          /* number of threads for which successive samples at one node are combined */
#define APART 3           /* largest number of periods between two samples in one record */

typedef struct {
  uint32_t parent, function, place; /* function 0: no entry */
  uint32_t node;
} cell;

typedef struct {
  cell *cells;
  uint32_t mask, count;
} table;

/* Two tables of the nodes in the tree of stacks. The key is the parent, the function, and a position in it: `places`
 * has the offset in the code, `lines` the line. */
static table places, lines;

typedef struct {
  uint64_t ident;
  uint32_t tid, name, node;
} known_thread;

static struct {
  known_thread *items;
  uint32_t count, room;
} threads;

static uint32_t last_node;  /* number of the newest node of this process */
static uint32_t node_count; /* nodes since the last msp_stacks_clear */

typedef struct {
  bool is_node;
  uint32_t parent, line; /* of a node: its parent, and its line; of a thread's node: the native id of the thread */
  msp_function function;
  msp_sample sample; /* of a node: only its `node` is used, for its number */
} item;

/* The queue between the sampling thread, which adds entries, and the writing thread, which removes them. */
static item queue[QUEUED];
static uint32_t put_so_far, taken_so_far, lost;

static msp_sample runs[RUNS];
static uint32_t lost_written;

static uint32_t cell_at(const table *in, uint32_t parent, uint32_t function, uint32_t place) {
  uint64_t hash = ((uint64_t)parent << 32 | place) * 0x9E3779B97F4A7C15u;
  hash = (hash ^ hash >> 32 ^ function) * 0x9E3779B97F4A7C15u;
  uint32_t at = (uint32_t)(hash >> 32) & in->mask;
  for (;; at = (at + 1) & in->mask) {
    const cell *found = &in->cells[at];
    if (found->function == 0) return at;
    if (found->parent == parent && found->function == function && found->place == place) return at;
  }
}

static uint32_t find(const table *in, uint32_t parent, uint32_t function, uint32_t place) {
  return in->cells == NULL ? 0 : in->cells[cell_at(in, parent, function, place)].node;
}

static bool make_room(table *in) {
  uint32_t cells = in->cells == NULL ? 0 : in->mask + 1;
  if (3 * (in->count + 1) < 2 * cells) return true;
  table grown = {NULL, (cells == 0 ? FIRST_CELLS : 2 * cells) - 1, in->count};
  grown.cells = calloc(grown.mask + 1, sizeof *grown.cells);
  if (grown.cells == NULL) return false;
  for (uint32_t i = 0; i < cells; ++i) {
    const cell *old = &in->cells[i];
    if (old->function != 0) grown.cells[cell_at(&grown, old->parent, old->function, old->place)] = *old;
  }
  free(in->cells);
  *in = grown;
  return true;
}

static bool put_cell(table *in, uint32_t most, cell new) {
  if (in->count >= most || !make_room(in)) return false;
  in->cells[cell_at(in, new.parent, new.function, new.place)] = new;
  ++in->count;
  return true;
}

static void forget(table *in) {
  free(in->cells);
  *in = (table){0};
}

void msp_stacks_clear(void) {
  forget(&places);
  forget(&lines);
  free(threads.items);
  memset(&threads, 0, sizeof threads);
  memset(runs, 0, sizeof runs);
  node_count = 0;
  __atomic_store_n(&taken_so_far, __atomic_load_n(&put_so_far, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

static bool put(const item *new) {
  uint32_t at = __atomic_load_n(&put_so_far, __ATOMIC_RELAXED);
  if (at - __atomic_load_n(&taken_so_far, __ATOMIC_ACQUIRE) >= QUEUED) return false;
  queue[at % QUEUED] = *new;
  __atomic_store_n(&put_so_far, at + 1, __ATOMIC_RELEASE);
  return true;
}

void msp_stacks_lost(void) { __atomic_add_fetch(&lost, 1, __ATOMIC_RELAXED); }

void msp_stacks_put(const msp_sample *sample) {
  const item new = {.is_node = false, .sample = *sample};
  if (!put(&new)) msp_stacks_lost();
}

/* Make a node, and put it into the queue for the writing thread. Returns the number of the node; 0: there is no
 * room. */
static uint32_t new_node(uint32_t parent, uint32_t line, const msp_function *function) {
  if (node_count >= NODES_MOST || last_node == UINT32_MAX) return 0;
  const item new = {true, parent, line, *function, {.node = last_node + 1}};
  if (!put(&new)) return 0;
  ++node_count;
  return ++last_node;
}

uint32_t msp_stacks_thread(uint64_t ident, uint32_t tid, uint32_t name) {
  known_thread *thread = NULL;
  for (uint32_t i = 0; i < threads.count && thread == NULL; ++i) {
    if (threads.items[i].ident == ident) thread = &threads.items[i];
  }
  if (thread != NULL && thread->tid == tid && thread->name == name) return thread->node;
  if (thread == NULL && threads.count == threads.room) {
    uint32_t room = threads.room == 0 ? 16 : 2 * threads.room;
    known_thread *items = realloc(threads.items, room * sizeof *items);
    if (items == NULL) return 0;
    threads.items = items;
    threads.room = room;
  }
  const msp_function none = {name, 0, 0};
  uint32_t node = new_node(0, tid, &none);
  if (node == 0) return 0;
  if (thread == NULL) thread = &threads.items[threads.count++];
  *thread = (known_thread){ident, tid, name, node};
  return node;
}

uint32_t msp_stacks_at(uint32_t parent, uint32_t function, uint32_t place) {
  return find(&places, parent, function, place);
}

uint32_t msp_stacks_add(uint32_t parent, uint32_t function, uint32_t place, uint32_t line, const msp_function *names) {
  uint32_t node = find(&lines, parent, function, line);
  if (node == 0) {
    node = new_node(parent, line, names);
    if (node == 0 || !put_cell(&lines, NODES_MOST, (cell){parent, function, line, node})) return 0;
  }
  /* with this entry, the next sample at this offset need not look up the line */
  put_cell(&places, PLACES_MOST, (cell){parent, function, place, node});
  return node;
}

static void commit(uint64_t start_ns, uint64_t end_ns, uint64_t arg, uint32_t name, uint8_t kind) {
  msp_writer *writer = msp_writer_get();
  if (writer == NULL) return;
  msp_slot *slot = msp_writer_slot(writer, MSP_WORTH_FINE);
  if (slot != NULL) msp_slot_commit(slot, start_ns, end_ns, arg, name, msp_slot_word(kind, 0, 0, 0));
}

static void write_node(const item *node) {
  const msp_function *of = &node->function;
  uint64_t place = node->line;
  if (node->parent != 0) {
    const uint32_t most = MSP_FRAME_LINE_MOST;
    uint32_t first = of->line < most ? of->line : most, line = node->line < most ? node->line : most;
    place = (uint64_t)of->file << (2 * MSP_FRAME_LINE_BITS) | (uint64_t)first << MSP_FRAME_LINE_BITS | line;
  }
  commit(msp_now(), (uint64_t)node->parent << 32 | node->sample.node, place, of->name, MSP_KIND_FRAME);
}

static void write_run(msp_sample *run) {
  if (run->count == 0) return;
  commit(run->first_ns, run->last_ns, (uint64_t)run->count << 32 | run->node, run->late_us, MSP_KIND_SAMPLED);
  run->count = 0;
}

static void write_sample(const msp_sample *sample, uint64_t period_ns) {
  msp_sample *run = &runs[sample->thread % RUNS];
  bool goes_on = run->count > 0 && run->thread == sample->thread && run->node == sample->node &&
                 run->count < TOGETHER_MOST && sample->count == 1 && sample->first_ns >= run->last_ns &&
                 sample->first_ns - run->last_ns < APART * period_ns;
  if (!goes_on) {
    write_run(run);
    *run = *sample;
    return;
  }
  run->last_ns = sample->last_ns;
  if (sample->late_us > run->late_us) run->late_us = sample->late_us;
  ++run->count;
}

void msp_stacks_write(uint64_t period_ns, bool all) {
  uint32_t at = __atomic_load_n(&taken_so_far, __ATOMIC_RELAXED);
  while (at != __atomic_load_n(&put_so_far, __ATOMIC_ACQUIRE)) {
    item next = queue[at % QUEUED];
    __atomic_store_n(&taken_so_far, ++at, __ATOMIC_RELEASE);
    if (next.is_node) {
      write_node(&next);
    } else {
      write_sample(&next.sample, period_ns);
    }
  }
  for (uint32_t i = 0; all && i < RUNS; ++i) write_run(&runs[i]);
  uint32_t so_far = __atomic_load_n(&lost, __ATOMIC_RELAXED);
  for (msp_writer *writer = msp_writer_get(); writer != NULL && lost_written != so_far; ++lost_written) {
    msp_writer_drop(writer);
  }
}
