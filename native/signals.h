/* Delay signals to the job while ms-profiler's atexit callbacks run.
 *
 * When atexit callbacks run, a job has finished its work. ms-profiler's callbacks take 50 ms. When a signal comes
 * during this time, a job without ms-profiler would be 50 ms further in its shutdown, or would have ended. So
 * ms-profiler delays the signal until the job has reached this point. In most cases, the job has ended by then.
 */
#ifndef MSP_SIGNALS_H
#define MSP_SIGNALS_H

/* cffi:begin */

/* Delay signals to the process from now on. Signals that are ignored, stop the process or report a fault are not
 * delayed. */
void msp_signals_hold(void);

/* End the delay of signals. A signal that came a time t after msp_signals_hold comes again the time t after this
 * call. */
void msp_signals_release(void);

/* cffi:end */

#endif
