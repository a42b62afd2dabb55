/* Texts and their ids. A text has the same id for the life of the process and in its fork children.
 *
 * Ids are valid in all sessions, so a hook may intern its labels once. Opening a store writes all known texts; a later
 * text is written when it is first used. Look-ups take no lock.
 */
#ifndef MSP_STRINGS_H
#define MSP_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The origin of a text. A job may make any number of names, so an eighth of the room is reserved for names of the
 * profiler. For texts of MSP_COUNTED and MSP_OF_THE_SYSTEM, the caller sets a limit. */
typedef enum { MSP_OURS, MSP_OF_THE_JOB, MSP_COUNTED, MSP_OF_THE_SYSTEM } msp_origin;

/* Return the id of `text`; 0 if it is empty or cannot be written, or if a limit is reached. A process has at most 65536
 * texts with 8 MiB in total, and at most `most` texts of MSP_COUNTED and MSP_OF_THE_SYSTEM. A text that is longer than
 * MSP_STRING_MAX bytes is cut at the start of a character. */
uint32_t msp_intern(const char *text, size_t length, msp_origin origin, uint32_t most);

/* From now on write a keyed hash instead of each text of MSP_OF_THE_JOB and MSP_OF_THE_SYSTEM. Shapes, and the
 * operators and nodes of autograd that PyTorch defines, are not replaced. */
void msp_strings_anonymize(const unsigned char key[16]);

/* Return whether hashes are written in place of texts. */
bool msp_strings_anonymous(void);

/* Return the length of a cut text without an incomplete character at its end. */
size_t msp_whole_characters(const char *text, size_t length);

/* The texts that one thread interned last, by address. The names of operators stay at their addresses, so that a
 * look-up by address needs no hash of the text. */
typedef struct {
  struct {
    const char *from;
    const char *text; /* copy of the text that was at this address */
    uint32_t id;
    uint32_t session; /* the session to whose store the text was written */
  } entries[128];
} msp_recent;

#define MSP_RECENT(recent, text) (&(recent)->entries[((uintptr_t)(text) >> 4 ^ (uintptr_t)(text) >> 11) & 127u])

/* The slow path of msp_intern_recent: the address has no entry, or the entry of another text. */
uint32_t msp_intern_anew(msp_recent *recent, const char *text, uint32_t session);

/* As msp_intern, for a text of the job that ends with a zero byte, while `session` is open. */
static inline uint32_t msp_intern_recent(msp_recent *recent, const char *text, uint32_t session) {
  if (MSP_RECENT(recent, text)->from == text && MSP_RECENT(recent, text)->session == session &&
      strcmp(MSP_RECENT(recent, text)->text, text) == 0) {
    return MSP_RECENT(recent, text)->id;
  }
  return msp_intern_anew(recent, text, session);
}

/* Return the number of texts that this process has refused because a limit was reached. */
uint64_t msp_strings_refused(void);

/* Return the number of slots that all texts take in a store. Called with the control stream's lock held. */
uint32_t msp_strings_slots(void);

/* Write the texts that are not in the store of `session` yet. Called with the control stream's lock held. */
void msp_strings_write(uint32_t session);

/* In a fork child, mark the table for repair at its next use: the fork may have interrupted a change. */
void msp_strings_after_fork(void);

#endif
