/* Make a thread that runs Python call a function of ours between two of its bytecodes; the request comes from a
 * thread without the GIL. Nothing waits, and no thread gives up the GIL for it. */
#ifndef MSP_PENDING_H
#define MSP_PENDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

typedef enum { MSP_PENDING_UNKNOWN, MSP_PENDING_WORKS, MSP_PENDING_IMPOSSIBLE } msp_pending_state;

/* Find out how; with the GIL. While it is unknown, call it again when some more bytecodes have been run. */
msp_pending_state msp_pending_find(void);

/* Ask for a call. False: it will not come. */
bool msp_pending_ask(int (*call)(void *));

#endif
