/* The memory blocks that a library's allocator takes from the C library, and gives back.
 *
 * Two of the library's imports are replaced, posix_memalign and free. All blocks that posix_memalign made are counted.
 * Those of some size are also recorded one by one. Blocks made before, and memory of other functions, are not known
 * here. A fork child counts nothing.
 */
#ifndef MSP_BLOCKS_H
#define MSP_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* cffi:begin */

/* Begin to count the blocks of a loaded library, by its file name, and record those of `least` bytes and more. Goes on
 * if it has begun already. Returns NULL on success, or the reason. */
const char *msp_blocks_watch(const char *library, uint64_t least);

/* Give the library its own imports back, where they are still ours, and forget all blocks. */
void msp_blocks_leave(void);

/* cffi:end */

typedef struct {
  uint64_t live;  /* bytes of the blocks that are in use */
  uint64_t peak;  /* largest sum since the last query */
  uint64_t made;  /* blocks allocated so far */
  uint64_t freed; /* blocks released so far */
  uint64_t lost;  /* blocks that were not noted for lack of memory */
  bool intact;    /* the imports are still ours: no other tool has replaced them */
} msp_blocks_counts;

void msp_blocks_count(msp_blocks_counts *counts);

/* Call a function with the time and the address of each block that is recorded, on the thread that took it; NULL: none.
 * It may hold locks of the job, but no GIL. */
void msp_blocks_when_taken(void (*call)(uint64_t time_ns, uintptr_t address));

/* Forget all blocks in a fork child, and the locks of its parent's threads. */
void msp_blocks_after_fork(void);

#endif
