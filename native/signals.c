#include "signals.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define NUMBERS 65 /* 1 to 64 */

static struct {
  pid_t owner; /* 0: nothing is put off; a fork child puts off nothing of its parent's */
  uint64_t since;
  bool taken[NUMBERS];
  struct sigaction before[NUMBERS];
  uint64_t came[NUMBERS]; /* when each came first */
} held;

static void note(int number, siginfo_t *info, void *unused) {
  (void)info;
  (void)unused;
  uint64_t none = 0;
  __atomic_compare_exchange_n(&held.came[number], &none, msp_clock_read(CLOCK_MONOTONIC), false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
}

/* Signals that do not end a process on request, that report a fault of a thread, or that cannot be put off. */
static bool is_let_through(int number) {
  static const int numbers[] = {SIGKILL, SIGSTOP, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD, SIGURG,  SIGWINCH,
                                SIGSEGV, SIGBUS,  SIGILL,  SIGFPE,  SIGTRAP, SIGSYS,  SIGABRT, SIGPIPE, SIGXFSZ};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
    if (numbers[i] == number) return true;
  }
  return number > SIGSYS && number < SIGRTMIN; /* the C library's own */
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
    if (is_let_through(number) || sigaction(number, NULL, before) != 0) continue;
    if ((before->sa_flags & SA_SIGINFO) == 0 && before->sa_handler == SIG_IGN) continue;
    held.taken[number] = sigaction(number, &action, NULL) == 0;
  }
}

/* By a timer of the kernel; the system call itself, because before glibc 2.34 its function is in another library. */
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
