/* The control stream of the store: the strings that records refer to, pairs of clock readings (anchors), and the number
 * of dropped records. */
#ifndef MSP_CONTROL_H
#define MSP_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

/* Make the first file of the control stream for `session`, and write all known strings to it. Returns 0 or an errno. */
int msp_control_open(uint32_t session);
void msp_control_close(void);
void msp_control_after_fork(void);

/* Take the lock of the control stream, which also protects the table of strings. Returns the number of the session to
 * which the stream belongs; 0: no session is open. */
uint32_t msp_control_lock(void);
void msp_control_unlock(void);

/* Write a string to the control stream. The caller holds the stream's lock, and the stream is open. Returns false if
 * there is no disk space. */
bool msp_control_write_string(uint32_t id, const char *text, uint32_t length);

/* Write an anchor: a pair of readings of the monotonic and the wall clock. Then write the strings for which the disk
 * had no room before. */
void msp_control_anchor(void);

/* Count a name that was refused because the table of names is full. Called with the control stream's lock held, while a
 * session is open. */
void msp_control_count_unnamed(void);

/* Count a refused record. `limit` is true if the limit of disk space or memory was the reason. The caller holds the
 * control stream's lock, or keeps the session open by msp_gate_hold. */
void msp_control_count_drop(bool limit);
uint64_t msp_control_dropped(void);
uint64_t msp_control_dropped_by_limit(void);

/* Make the next file of the control stream before the current one is full. The helper thread does this. */
void msp_control_prepare_spare(void);

#endif
