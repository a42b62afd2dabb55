/* The control stream of the open session: strings, clock anchors, and the number of dropped records. */
#ifndef MSP_CONTROL_H
#define MSP_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

/* Make the first segment of the stream for `session`, and write all known strings. Returns 0 or an errno. */
int msp_control_open(uint32_t session);
void msp_control_close(void);
void msp_control_after_fork(void);

/* Take the stream's lock, which also protects the table of strings. Returns the session of the stream, 0 if none is
 * open. */
uint32_t msp_control_lock(void);
void msp_control_unlock(void);

/* The caller holds the lock, and the stream is open. */
bool msp_control_write_string(uint32_t id, const char *text, uint32_t length);

/* Write an anchor, which is a pair of clock readings. Then write the strings for which the disk had no room before. */
void msp_control_anchor(void);

/* Count a name that was refused because the table of names is full. Called with the lock held, while there is a
 * session. */
void msp_control_count_unnamed(void);

/* Count a refused record. `limit` is true if the limit of disk space or memory was the reason. Called with the lock
 * held, or while the session is held. */
void msp_control_count_drop(bool limit);
uint64_t msp_control_dropped(void);
uint64_t msp_control_dropped_by_limit(void);

/* Work of the helper thread: make the next segment before this one is full. */
void msp_control_prepare_spare(void);

#endif
