/* The control stream of the open session: strings, clock anchors, and the number of dropped records. */
#ifndef MSP_CONTROL_H
#define MSP_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

/* Make the first segment for `session` and write all strings known. Returns 0 or an errno. */
int msp_control_open(uint32_t session);
void msp_control_close(void);
void msp_control_after_fork(void);

/* The lock also guards the table of strings. Returns the session whose stream can be written, 0 when there is none. */
uint32_t msp_control_lock(void);
void msp_control_unlock(void);

/* In the lock, while there is a stream. */
bool msp_control_write_string(uint32_t id, const char *text, uint32_t length);

/* Write a pair of clock readings, and the strings that a full disk refused before. */
void msp_control_anchor(void);

/* Count a name that was refused, because no more are kept. In the lock, with a session. */
void msp_control_count_unnamed(void);

/* Count a record that was refused; `limit`: by a budget. In the lock, or with the session held. */
void msp_control_count_drop(bool limit);
uint64_t msp_control_dropped(void);
uint64_t msp_control_dropped_by_limit(void);

/* Work of the helper thread: make the next segment before this one is full. */
void msp_control_prepare_spare(void);

#endif
