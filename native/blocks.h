/* The memory blocks that a library's allocator takes from the C library, and releases.
 *
 * Two of the library's imports are replaced, posix_memalign and free. All blocks that posix_memalign allocates from
 * then on are counted; large blocks are also recorded one by one. Blocks that were allocated before, and memory from
 * other functions, are not counted. A fork child counts nothing.
 */
#ifndef MSP_BLOCKS_H
#define MSP_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* cffi:begin */

/* Begin to count the blocks of the loaded library with the file name `library`, and to record its blocks of at least
 * `least` bytes. Does nothing if the counting has begun already. Returns NULL on success, or the reason of the
 * failure. */
const char *msp_blocks_watch(const char *library, uint64_t least);

/* Restore the library's imports if no other tool has replaced them since, and forget all blocks. */
void msp_blocks_leave(void);

/* cffi:end */

typedef struct {
  uint64_t live;  /* bytes of the blocks that are in use */
  uint64_t peak;  /* largest value of `live` since the last query */
  uint64_t made;  /* blocks allocated so far */
  uint64_t freed; /* blocks released so far */
  uint64_t lost;  /* blocks that could not be counted for lack of memory */
  bool intact;    /* no other tool has replaced the imports since */
} msp_blocks_counts;

void msp_blocks_count(msp_blocks_counts *counts);

/* Set a function to call with the time and the address of each recorded block, on the thread that allocates the block;
 * NULL: call none. The thread may hold locks of the job, and mostly does not hold the GIL. */
void msp_blocks_when_taken(void (*call)(uint64_t time_ns, uintptr_t address));

/* Forget all blocks in a fork child, and the locks of its parent's threads. */
void msp_blocks_after_fork(void);

#endif
