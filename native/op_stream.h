/* Record PyTorch's operators, which its C++ core reports on every thread to a collector of the ITT interface.
 *
 * The extension is such a collector. ITT loads the library that the environment variable INTEL_LIBITTNOTIFY64 names,
 * and calls this library's __itt_api_init with a table of functions to fill in. Other libraries of the process also
 * have such tables and read the same variable; the extension fills in only the table of libtorch_cpu. Nothing here uses
 * Python. Types and names are those of the ITT API, version 3 (ittnotify.h, ittnotify_config.h).
 */
#ifndef MSP_OP_STREAM_H
#define MSP_OP_STREAM_H

#include <stdbool.h>
#include <stddef.h>

/* Record operators from now on, on every thread on which PyTorch reports them. Returns false if PyTorch's ITT has not
 * loaded this library. */
bool msp_op_stream_start(void);

/* If the operator that the calling thread began last has this name, record it as a region of the user. */
void msp_op_stream_annotate(const char *name, size_t length);

#endif
