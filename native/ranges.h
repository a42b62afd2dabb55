/* Let the job continue when a mapped segment file is lost because another program truncates it or the disk fails.
 *
 * The next access to a lost page raises SIGBUS, which would end the job. The handler of this file replaces the page and
 * all later pages of the segment file by zeroed memory, so that the thread continues. Records in these pages are lost.
 * Every other SIGBUS goes to the previous handler, or ends the process if there is none. The handler is installed only
 * during a session. If the job installs another handler later, that handler is left in place.
 */
#ifndef MSP_RANGES_H
#define MSP_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* msp_ranges_add starts to watch a mapping, and msp_ranges_remove stops it. When a page is lost, `*lost` is set to 1 +
 * the offset of the first lost page; `lost` may be NULL. Any thread may call these functions. If there is no memory for
 * an entry, the mapping is not watched. */
void msp_ranges_add(void *start, size_t size, uint64_t *lost);
void msp_ranges_remove(const void *start);

/* msp_ranges_guard installs the handler. msp_ranges_unguard removes it, unless another handler has replaced it. */
void msp_ranges_guard(void);
void msp_ranges_unguard(void);

/* Remove all entries in a fork child, which does not inherit the mappings. */
void msp_ranges_after_fork(void);

#endif
