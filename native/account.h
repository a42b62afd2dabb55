/* The account of a result directory: the disk space of all processes that record into it.
 *
 * It is one small file (account_format below), which the first process makes and all others join; the space of a killed
 * process stays counted. Each process maps it and adds to it with one atomic operation, when a segment is made and not
 * before. Where the file system cannot map files, the file is read and written instead: there two processes may miss
 * each other's segment at times.
 */
#ifndef MSP_ACCOUNT_H
#define MSP_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#define MSP_ACCOUNT_MAGIC 0x3154434341505350ULL /* the bytes "PSPACCT1" */
#define MSP_ACCOUNT_NO_LIMIT UINT64_MAX

/* store/account.py mirrors it, and a test compares the two. */
typedef struct {
  uint64_t magic;   /* MSP_ACCOUNT_MAGIC */
  uint64_t limit;   /* bytes that may be taken; MSP_ACCOUNT_NO_LIMIT: any number */
  uint64_t bytes;   /* bytes taken so far */
  uint64_t refused; /* processes that found no room to begin */
} msp_account;

/* The priority of an event when disk space is short. */
typedef enum {
  MSP_WORTH_FINE,   /* stops at half of the limit */
  MSP_WORTH_COARSE, /* stops at seven eighths */
  MSP_WORTH_ALWAYS, /* steps, strings, anchors: stop at the limit */
} msp_worth;

/* Join the account in `path`, or make it with `limit`; "" is one of this process alone. Raises no signal. */
void msp_account_open(const char *path, uint64_t limit);

/* Leave the account; bytes that were taken stay counted. */
void msp_account_close(void);
void msp_account_after_fork(void);

/* Take bytes, if that leaves the account below the ceiling of `worth`. */
bool msp_account_take(uint64_t bytes, msp_worth worth);

/* Add bytes that were taken in any case; a negative number gives them back. */
void msp_account_add(int64_t bytes);

/* Lower the limit by bytes that other code may take; a negative number raises it again. */
void msp_account_set_aside(int64_t bytes);

/* Count this process as refused. */
void msp_account_refuse(void);

/* Bytes that are left for events of this priority. */
uint64_t msp_account_left(msp_worth worth);
uint64_t msp_account_limit(void);

#endif
