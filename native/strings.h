/* Strings by content: one id per text for the life of the process and of its fork children.
 *
 * An id outlives sessions, so a hook may intern its labels once. Whoever opens a store writes all strings known by
 * then; later ones are written on first sight. Look-ups take no lock.
 */
#ifndef MSP_STRINGS_H
#define MSP_STRINGS_H

#include <stddef.h>
#include <stdint.h>

/* Return the id of `text`, 0 when it is empty, or cannot be kept or written. Cut to MSP_STRING_MAX bytes at a
 * character's start. */
uint32_t msp_intern(const char *text, size_t length);

/* Write to the store of `session` what is not in it yet. In the control stream's lock. */
void msp_strings_write(uint32_t session);

/* Mend what a fork may have cut short, when it is next needed. */
void msp_strings_after_fork(void);

#endif
