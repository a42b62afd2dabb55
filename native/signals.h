/* Put off signals of the job while ms-profiler does its last work in it.
 *
 * A job has finished its own work when its atexit callbacks are called. Ours take 50 ms. In this time a signal would
 * meet a process that would have ended without us. So such a signal is delayed by the time that we took: it comes again
 * when the process is as far as it would have been, in most cases ended.
 */
#ifndef MSP_SIGNALS_H
#define MSP_SIGNALS_H

/* cffi:begin */

/* Put off signals from here on; signals that are ignored, stop the process or report a fault are not delayed. */
void msp_signals_hold(void);

/* Let signals through again. Signals that came meanwhile come again, with the delay from now that they had from the
 * begin of putting off. */
void msp_signals_release(void);

/* cffi:end */

#endif
