/* Which calls of CUDA a recording at the usual level contains.
 *
 * PyTorch asks for the present device some ten times for each kernel that it launches. On an H100 (CUDA 13.0, PyTorch
 * 2.11) 80 of 100 records of CUPTI were of such questions, which neither launch nor wait. cuBLAS and cuDNN launch
 * kernels by the driver, without the runtime. So without the driver's launches, the largest kernels have no launch.
 *
 * The numbers are those of CUPTI's headers `cupti_runtime_cbid.h` and `cupti_driver_cbid.h`. CUPTI never gives a number
 * to another call.
 */
#ifndef MSP_DEVICES_CUPTI_CALLS_H
#define MSP_DEVICES_CUPTI_CALLS_H

#include <stdbool.h>
#include <stdint.h>

/* Function of CUPTI that switches the records of one call on or off. */
typedef int (*cupti_switch)(uint32_t number, uint8_t on);

/* Return whether a call of the driver launches a kernel, a graph, a copy or a set, or waits for such work. */
bool cupti_launches(uint32_t number);

/* Return whether a call of the runtime only asks for something, or only makes or frees an event. */
bool cupti_asks(uint32_t number);

/* Switch the records of the driver's launches and waits. Returns false if CUPTI cannot switch single calls. */
bool cupti_switch_launches(cupti_switch function, bool on);

/* Switch off the records of the runtime's questions; a call that CUPTI refuses stays on. */
void cupti_leave_out_questions(cupti_switch function);

#endif
