/* PyTorch's stream of operators: the reports of its C++ core to a collector of the ITT interface, on every thread.
 *
 * The extension is that collector: the interface loads the library that INTEL_LIBITTNOTIFY64 names and calls its
 * __itt_api_init with a table of functions to fill in. Nothing here needs Python. Layouts and names are those of the
 * ITT API, version 3 (ittnotify.h, ittnotify_config.h). Only the table inside libtorch_cpu is served: other libraries
 * in the process have their own, and read the same variable.
 */
#ifndef MSP_OP_STREAM_H
#define MSP_OP_STREAM_H

#include <stdbool.h>
#include <stddef.h>

/* Record operators from here on, on each thread whose hook is on. Returns false when PyTorch did not ask us. */
bool msp_op_stream_start(void);

/* Mark the operator that the calling thread began last, if it has this name, as a region of the user. */
void msp_op_stream_annotate(const char *name, size_t length);

#endif
