/* Let the job continue when a mapped file of the store is lost, because another program truncates the file or the disk
 * fails.
 *
 * The next access to a lost page raises SIGBUS, which would end the job. The signal handler of this file replaces the
 * page and all later pages of the mapped file by zeroed memory, so that the thread continues. Records in these pages
 * are lost. Every other SIGBUS goes to the previous handler, or ends the process if there is none. Our handler is
 * installed only during a session. If the job installs another handler later, the job's handler stays.
 */
#ifndef MSP_RANGES_H
#define MSP_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* msp_ranges_add starts to watch a mapped file for lost pages, and msp_ranges_remove stops it. When a page is lost,
 * `*lost` is set to 1 + the offset of the first lost page; `lost` may be NULL. Any thread may call these functions. If
 * there is no memory for an entry, the mapping is not watched. */
void msp_ranges_add(void *start, size_t size, uint64_t *lost);
void msp_ranges_remove(const void *start);

/* msp_ranges_guard installs the SIGBUS handler. msp_ranges_unguard removes it if no other handler has replaced it. */
void msp_ranges_guard(void);
void msp_ranges_unguard(void);

/* In a fork child, remove all watched mappings: the child does not inherit them. */
void msp_ranges_after_fork(void);

#endif
