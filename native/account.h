/* The account of a result directory: a count of the disk space that all processes take in the directory.
 *
 * The account is one small file. The first process makes the file, and all others open it. When a process is killed,
 * its space stays counted. Each process maps the file into memory, and adds the size of each new file of records with
 * one atomic operation. Where the file system cannot map files, the process reads and writes the account. Then one
 * process may overwrite the change of another.
 */
#ifndef MSP_ACCOUNT_H
#define MSP_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#define MSP_ACCOUNT_MAGIC 0x3154434341505350ULL /* the bytes "PSPACCT1" */
#define MSP_ACCOUNT_NO_LIMIT UINT64_MAX

/* store/account.py declares the same fields; a test compares the two. */
typedef struct {
  uint64_t magic;   /* MSP_ACCOUNT_MAGIC */
  uint64_t limit;   /* bytes that may be taken; MSP_ACCOUNT_NO_LIMIT: no limit */
  uint64_t bytes;   /* bytes taken so far */
  uint64_t refused; /* number of processes that could not begin to record because there was no room */
} msp_account;

/* The priority of a record when disk space is short. Records of low priority stop first. */
typedef enum {
  MSP_WORTH_FINE,   /* stops at half of the limit */
  MSP_WORTH_COARSE, /* stops at seven eighths */
  MSP_WORTH_ALWAYS, /* steps, strings, anchors: stop at the limit */
} msp_worth;

/* Open the account in the file `path`. If the file does not exist, make it with this `limit`. With path "", this
 * process has an account of its own. Causes no signal. */
void msp_account_open(const char *path, uint64_t limit);

/* Close the account. The bytes that this process took stay counted. */
void msp_account_close(void);
void msp_account_after_fork(void);

/* Add bytes to the account if the sum stays within the part of the limit that records of priority `worth` may use.
 * Returns whether the bytes were added. */
bool msp_account_take(uint64_t bytes, msp_worth worth);

/* Add bytes to the account without a check of the limit. A negative number subtracts released bytes. */
void msp_account_add(int64_t bytes);

/* Lower the account's limit by bytes that other code may take. A negative number raises the limit again. */
void msp_account_set_aside(int64_t bytes);

/* Count this process in the account's number of processes that found no room to record. */
void msp_account_refuse(void);

/* Return the number of bytes that are left for records of this priority. */
uint64_t msp_account_left(msp_worth worth);
uint64_t msp_account_limit(void);

#endif
