/* Delay signals to the job while ms-profiler's atexit callbacks run.
 *
 * When atexit callbacks run, a job has finished its work. ms-profiler's callbacks take 50 ms. Without
 * ms-profiler, a signal that comes during this time would find the job 50 ms further in its shutdown, or ended. So the
 * signal is delayed until the job has reached that point; in most cases the job has ended by then.
 */
#ifndef MSP_SIGNALS_H
#define MSP_SIGNALS_H

/* cffi:begin */

/* Delay signals from now on, except those that are ignored, stop the process or report a fault. */
void msp_signals_hold(void);

/* End the delay. A signal that came t after msp_signals_hold comes again t after this call. */
void msp_signals_release(void);

/* cffi:end */

#endif
