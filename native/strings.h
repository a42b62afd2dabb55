/* Texts and their ids. A text has the same id for the life of the process and in its fork children.
 *
 * An id is valid in all recording sessions, so a hook may get the ids of its labels once. When a store is opened, all
 * known texts are written to it. A later text is written when it is first used. Look-ups take no lock.
 */
#ifndef MSP_STRINGS_H
#define MSP_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The origin of a text: the profiler (MSP_OURS), the job, or the system. A job may make any number of names, so an
 * eighth of the room is reserved for MSP_OURS. For MSP_COUNTED and MSP_OF_THE_SYSTEM, the caller sets a limit on the
 * number of texts. */
typedef enum { MSP_OURS, MSP_OF_THE_JOB, MSP_COUNTED, MSP_OF_THE_SYSTEM } msp_origin;

/* Return the id of `text`. Returns 0 if the text is empty or cannot be written, or if a limit is reached. A process has
 * at most 65536 texts with 8 MiB in total, and at most `most` texts of MSP_COUNTED and MSP_OF_THE_SYSTEM. When a text
 * is longer than MSP_STRING_MAX bytes, it is cut between two characters. */
uint32_t msp_intern(const char *text, size_t length, msp_origin origin, uint32_t most);

/* From now on, write a keyed hash instead of each text that comes from the job or the system (MSP_OF_THE_JOB,
 * MSP_OF_THE_SYSTEM). Three kinds of text stay readable: shapes, and PyTorch's own operators and nodes of autograd. */
void msp_strings_anonymize(const unsigned char key[16]);

/* Return whether hashes are written in place of texts. */
bool msp_strings_anonymous(void);

/* Return the length of a text without an incomplete UTF-8 character at its end; `text` may have been cut. */
size_t msp_whole_characters(const char *text, size_t length);

/* A cache of the ids that one thread looked up last, by the address of the text. The names of operators stay at their
 * addresses. So a look-up by address needs no hash of the text. */
typedef struct {
  struct {
    const char *from;
    const char *text; /* copy of the text that was at this address */
    uint32_t id;
    uint32_t session; /* the session to whose store the text was written */
  } entries[128];
} msp_recent;

#define MSP_RECENT(recent, text) (&(recent)->entries[((uintptr_t)(text) >> 4 ^ (uintptr_t)(text) >> 11) & 127u])

/* The slow path of msp_intern_recent: the cache has no entry for the address, or the entry has another text. */
uint32_t msp_intern_anew(msp_recent *recent, const char *text, uint32_t session);

/* Return the id of a text of the job, as msp_intern does, with the help of the thread's cache. The text ends with a
 * zero byte, and `session` is open. */
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

/* In a fork child, mark the table of texts for repair at its next use: the fork may have interrupted a change. */
void msp_strings_after_fork(void);

#endif
