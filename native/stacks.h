/* Pass samples of stacks, as paths in a tree, from the sampling thread to the thread that writes them to the store.
 *
 * The sampling thread holds the GIL, so only one thread samples at a time. It numbers nodes and queues samples; it
 * takes no lock, and does not write to the store. Another thread, always the same one, writes the queue to the store.
 * This file does not use Python's API.
 */
#ifndef MSP_STACKS_H
#define MSP_STACKS_H

#include <stdbool.h>
#include <stdint.h>

/* A function: the ids of its name and of the path of its file, and the line in which it begins. */
typedef struct {
  uint32_t name, file, line;
} msp_function;

/* Forget all nodes of the tree of stacks; later nodes get new numbers. No thread may sample or write meanwhile. */
void msp_stacks_clear(void);

/* Return the node of a thread, which is the root of the thread's stacks. Returns 0 if there is no room for the node.
 *
 * ident: a number that no other running thread has.
 * tid: the native id of the thread; 0: not known.
 * name: id of the thread's name.
 */
uint32_t msp_stacks_thread(uint64_t ident, uint32_t tid, uint32_t name);

/* Return the node of a function on a stack: the function of node `parent` called it, and it runs the instruction at
 * offset `place` of its code. Returns 0 if there is no such node yet. */
uint32_t msp_stacks_at(uint32_t parent, uint32_t function, uint32_t place);

/* Return the node as msp_stacks_at does, and make it if there is none. All offsets in one line have the same node.
 * Returns 0 if there is no room for the node. */
uint32_t msp_stacks_add(uint32_t parent, uint32_t function, uint32_t place, uint32_t line, const msp_function *names);

typedef struct {
  uint32_t thread;  /* node of the thread */
  uint32_t node;    /* node at which the thread was */
  uint32_t count;   /* number of samples, at equal distances from the first to the last */
  uint32_t late_us; /* greatest delay of one of these samples */
  uint64_t first_ns, last_ns;
} msp_sample;

/* Put a sample into the queue for the writing thread. If the queue is full, count the sample as dropped. */
void msp_stacks_put(const msp_sample *sample);

/* Count a sample as dropped. */
void msp_stacks_lost(void);

/* Write the queued nodes and samples to the store; only the writing thread calls this. Successive samples of a thread
 * at one node become one record. So the last sample of each thread is not written before the next sample is known. With
 * `all`, these last samples are written now, too. */
void msp_stacks_write(uint64_t period_ns, bool all);

#endif
