/* Pending calls. A thread without the GIL requests a call of a function. The thread that runs Python makes this call
 * between two of its bytecodes. Neither thread waits, and no thread releases the GIL. */
#ifndef MSP_PENDING_H
#define MSP_PENDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

typedef enum { MSP_PENDING_UNKNOWN, MSP_PENDING_WORKS, MSP_PENDING_IMPOSSIBLE } msp_pending_state;

/* Find out how to request a pending call from the running version of Python. Called with the GIL, on the main thread.
 * While the result is MSP_PENDING_UNKNOWN, call this again after Python has run more bytecodes. */
msp_pending_state msp_pending_find(void);

/* Request a pending call of `call`. Returns false if the request failed. */
bool msp_pending_ask(int (*call)(void *));

#endif
