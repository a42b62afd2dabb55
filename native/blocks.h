/* The memory blocks that a library's allocator (that of PyTorch) takes from the C library, and releases.
 *
 * The library imports posix_memalign and free. Our functions replace these two imports. They count all blocks that
 * posix_memalign allocates from then on, and record large blocks one by one. They do not count earlier blocks, or
 * memory from other functions. A fork child counts nothing.
 */
#ifndef MSP_BLOCKS_H
#define MSP_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* cffi:begin */

/* Begin to count the memory blocks of the loaded library with the file name `library`, and to record its blocks of at
 * least `least` bytes. Does nothing if counting has begun already. Returns NULL on success, or the reason of the
 * failure. */
const char *msp_blocks_watch(const char *library, uint64_t least);

/* Stop counting: forget all blocks, and restore the library's imports, except those that another tool has replaced
 * since. */
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

/* Set a function to call for each recorded block, with the block's time and address; NULL: call none. The thread that
 * allocates the block makes the call. This thread may hold locks of the job, and usually does not hold the GIL. */
void msp_blocks_when_taken(void (*call)(uint64_t time_ns, uintptr_t address));

/* In a fork child, forget all blocks, and reset the locks, which threads of the parent may have held at the fork. */
void msp_blocks_after_fork(void);

#endif
