/* Signals of the job, put off while we do our last work in it.
 *
 * A job has said its last line when its atexit callbacks are called. Ours take 50 ms of it, in which a signal would
 * find a process that is gone without us. So a signal that comes then is put off by what we took: it comes again when
 * the process is as far as it would have been, and finds what it would have found, mostly nobody.
 */
#ifndef MSP_SIGNALS_H
#define MSP_SIGNALS_H

/* cffi:begin */

/* Put off signals from here on; those that are ignored, stop the process or tell of a fault stay what they are. */
void msp_signals_hold(void);

/* Let signals through, and have those that came since come again, as long after now as they came after that. */
void msp_signals_release(void);

/* cffi:end */

#endif
