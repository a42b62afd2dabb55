/* The libraries that msPTI's looks functions up in: it ends the process, by an exception that nobody can catch, where
 * one of these is missing when it needs it, some only once it records.
 */
#ifndef MSP_DEVICES_MSPTI_COMPANIONS_H
#define MSP_DEVICES_MSPTI_COMPANIONS_H

#include <stdbool.h>

#include "backend.h"

#define MSPTI_RUNTIME "libascendcl.so"
#define MSPTI_DRIVER "libascend_hal.so"

/* Tell whether the driver, which is loaded, has a device. */
bool mspti_has_devices(void *driver);

/* Load them, as the library does, and see that they have what it needs; they stay loaded. Returns false with a reason.
 */
bool mspti_load_companions(const char *library, msp_reason *why);

#endif
