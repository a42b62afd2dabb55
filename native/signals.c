#include "signals.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define NUMBERS 65 /* signals have the numbers 1 to 64 */

static struct {
  pid_t owner; /* the process that delays signals, not its fork children; 0: none */
  uint64_t since;
  bool taken[NUMBERS];
  struct sigaction before[NUMBERS];
  uint64_t came[NUMBERS]; /* time of the first signal of each number; 0: none came */
} held;

static void note(int number, siginfo_t *info, void *unused) {
  (void)info;
  (void)unused;
  uint64_t none = 0;
  __atomic_compare_exchange_n(&held.came[number], &none, msp_clock_read(CLOCK_MONOTONIC), false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
}

/* Return whether a signal is not delayed. There are three reasons: it does not ask the process to end, it reports a
 * fault, or it cannot be handled. */
static bool is_not_delayed(int number) {
  static const int numbers[] = {SIGKILL, SIGSTOP, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD, SIGURG,  SIGWINCH,
                                SIGSEGV, SIGBUS,  SIGILL,  SIGFPE,  SIGTRAP, SIGSYS,  SIGABRT, SIGPIPE, SIGXFSZ};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
    if (numbers[i] == number) return true;
  }
  return number > SIGSYS && number < SIGRTMIN; /* signals that the C library uses itself */
}

void msp_signals_hold(void) {
  if (held.owner == getpid()) return;
  struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
  sigfillset(&action.sa_mask);
  held.owner = getpid();
  held.since = msp_clock_read(CLOCK_MONOTONIC);
  for (int number = 1; number < NUMBERS; ++number) {
    struct sigaction *before = &held.before[number];
    held.came[number] = 0;
    held.taken[number] = false;
    if (is_not_delayed(number) || sigaction(number, NULL, before) != 0) continue;
    if ((before->sa_flags & SA_SIGINFO) == 0 && before->sa_handler == SIG_IGN) continue;
    held.taken[number] = sigaction(number, &action, NULL) == 0;
  }
}

/* Send a signal to this process after a delay, with a timer of the kernel. Before glibc 2.34, the functions for timers
 * are in librt. So this function makes the system calls itself. */
static void send_after(int number, uint64_t delay_ns) {
  ++delay_ns; /* a delay of 0 would disarm the timer */
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = number};
  const struct itimerspec when = {.it_value = {(time_t)(delay_ns / 1000000000u), (long)(delay_ns % 1000000000u)}};
  int timer;
  if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) != 0 ||
      syscall(SYS_timer_settime, timer, 0, &when, NULL) != 0) {
    kill(held.owner, number);
  }
}

void msp_signals_release(void) {
  if (held.owner != getpid()) return;
  for (int number = 1; number < NUMBERS; ++number) {
    if (held.taken[number]) sigaction(number, &held.before[number], NULL);
  }
  for (int number = 1; number < NUMBERS; ++number) {
    if (held.taken[number] && held.came[number] != 0) send_after(number, held.came[number] - held.since);
  }
  held.owner = 0;
}
