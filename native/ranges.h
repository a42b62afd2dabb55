/* Survive the loss of a mapped file of ours, which another program truncates, or whose disk fails.
 *
 * The next access to such a page is a SIGBUS, which would end the job. A handler puts zeroed memory in place of the
 * page and of all later pages of the file, so that the thread continues; its further records there are lost. Every
 * other SIGBUS goes to the previous handler, or ends the process as without ours. The handler is installed only while
 * there is a session, and a handler that the job sets later is not touched.
 */
#ifndef MSP_RANGES_H
#define MSP_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Watch a mapping; `lost`, where there is one, is set to 1 + the offset of the first lost page. In any order, on any
 * thread; without memory for the entry, the mapping is not watched. */
void msp_ranges_add(void *start, size_t size, uint64_t *lost);
void msp_ranges_remove(const void *start);

/* Install the handler, and remove it again unless another handler has replaced it. */
void msp_ranges_guard(void);
void msp_ranges_unguard(void);

/* Mappings are not inherited. */
void msp_ranges_after_fork(void);

#endif
