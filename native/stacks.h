/* Stacks of threads, as paths in a tree: passed from the sampling thread to the thread that writes them to the store.
 *
 * The sampling thread holds the GIL, so there is one at a time. It numbers nodes and queues samples; it takes no lock
 * and writes nothing. One other thread, always the same, writes. Knows nothing of Python.
 */
#ifndef MSP_STACKS_H
#define MSP_STACKS_H

#include <stdbool.h>
#include <stdint.h>

/* A function: ids of its name and of the path of its file, and the line that it begins in. */
typedef struct {
  uint32_t name, file, line;
} msp_function;

/* Forget all nodes. Numbers of nodes are used once in a process. Only while no thread samples or writes. */
void msp_stacks_clear(void);

/* Return the node of a thread, below which its stacks are, 0 where there is no room for it.
 *
 * ident: a number that distinguishes threads that run at the same time.
 * tid: its number in the operating system; 0: not known.
 * name: id of its name.
 */
uint32_t msp_stacks_thread(uint64_t ident, uint32_t tid, uint32_t name);

/* Return the node of a function that is called from `parent`, and is at `place` of its code; 0: not seen so far. */
uint32_t msp_stacks_at(uint32_t parent, uint32_t function, uint32_t place);

/* As msp_stacks_at, for a new place: places in one line share a node. 0: there is no room for it. */
uint32_t msp_stacks_add(uint32_t parent, uint32_t function, uint32_t place, uint32_t line, const msp_function *told);

typedef struct {
  uint32_t thread; /* its node */
  uint32_t node;   /* where it was */
  uint32_t count;  /* number of times at which it was due, at equal distances from the first to the last */
  uint32_t late_us;
  uint64_t first_ns, last_ns;
} msp_sample;

/* Queue a sample; if the queue is full, count it as dropped. */
void msp_stacks_put(const msp_sample *sample);
void msp_stacks_lost(void);

/* Work of the writing thread: write the queued samples; samples of a thread that stays in one place are combined;
 * `all`: write those, too. */
void msp_stacks_write(uint64_t period_ns, bool all);

#endif
