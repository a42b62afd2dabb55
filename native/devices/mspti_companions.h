/* The libraries in which msPTI looks up functions. When a library or a function is missing, msPTI ends the process by
 * an exception that cannot be caught. This may happen as late as the start of recording.
 */
#ifndef MSP_DEVICES_MSPTI_COMPANIONS_H
#define MSP_DEVICES_MSPTI_COMPANIONS_H

#include <stdbool.h>

#include "backend.h"

#define MSPTI_RUNTIME "libascendcl.so"
#define MSPTI_DRIVER "libascend_hal.so"

/* Return whether the loaded driver of the NPU has a device. */
bool mspti_has_devices(void *driver);

/* Load the libraries in which msPTI looks up functions, as msPTI does, and check that they have these functions. The
 * libraries stay loaded. Returns false with a reason on failure.
 */
bool mspti_load_companions(const char *library, msp_reason *why);

#endif
