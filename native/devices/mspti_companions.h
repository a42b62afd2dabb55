/* The libraries in which msPTI looks up functions. If such a library or function is missing when msPTI needs it, msPTI
 * ends the process by an exception that cannot be caught. This may happen as late as the start of recording.
 */
#ifndef MSP_DEVICES_MSPTI_COMPANIONS_H
#define MSP_DEVICES_MSPTI_COMPANIONS_H

#include <stdbool.h>

#include "backend.h"

#define MSPTI_RUNTIME "libascendcl.so"
#define MSPTI_DRIVER "libascend_hal.so"

/* Return whether the loaded driver has a device. */
bool mspti_has_devices(void *driver);

/* Load these libraries, as msPTI does, and check that they have the functions that msPTI needs; the libraries stay
 * loaded. Returns false with a reason on failure.
 */
bool mspti_load_companions(const char *library, msp_reason *why);

#endif
