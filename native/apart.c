#include "apart.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES (64 << 10)
#define DESCRIPTORS_MOST 65536 /* closed one by one, if the kernel cannot close all descriptors at once */
#define SIGNALS_MOST 64

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

typedef struct {
  char **argv;
  char **envp;
  int output;
  int errors;
  char *stack; /* stack of the new process, until it executes the program */
  int pid;
  int error;
} order;

/* Copy a descriptor to a number above 2, because the program gets its own descriptors 0, 1 and 2. */
static int aside(int descriptor) { return fcntl(descriptor, F_DUPFD, 3); }

static void close_others(void) {
  if (syscall(SYS_close_range, 3u, UINT_MAX, 0u) == 0) return;
  struct rlimit limit = {DESCRIPTORS_MOST, 0};
  getrlimit(RLIMIT_NOFILE, &limit); /* Linux before 5.9 */
  for (int fd = 3; fd < DESCRIPTORS_MOST && (rlim_t)fd < limit.rlim_cur; ++fd) close(fd);
}

/* Give every signal its default action and unblock it. Otherwise, signals that the job ignores or blocks would stay
 * ignored or blocked in the new program. An action of zeros is SIG_DFL on every machine. This code makes the system
 * call itself: the C library's sigaction takes a lock for some signals, and a thread of the job may hold this lock. */
static void reset_signals(void) {
  static const char zeros[64];
  for (int number = 1; number <= SIGNALS_MOST; ++number) {
    syscall(SYS_rt_sigaction, number, zeros, NULL, SIGNALS_MOST / 8);
  }
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, zeros, NULL, SIGNALS_MOST / 8);
}

static int program(void *data) {
  order *given = data;
  setsid();
  int input = open("/dev/null", O_RDWR | O_CLOEXEC);
  int low = aside(input), output = aside(given->output), errors = aside(given->errors);
  if (low < 0 || output < 0 || errors < 0 || dup2(low, 0) < 0 || dup2(output, 1) < 0 || dup2(errors, 2) < 0) {
    given->error = errno;
    _exit(127);
  }
  close_others();
  reset_signals();
  execve(given->argv[0], given->argv, given->envp);
  given->error = errno;
  _exit(127);
}

static int starter(void *data) {
  order *given = data;
  given->pid = clone(program, given->stack, CLONE_VM | CLONE_VFORK | SIGCHLD, given);
  if (given->pid < 0) given->error = errno;
  _exit(0);
}

/* Start a program through an intermediate process, which then exits. So the program has no parent in the job. When the
 * intermediate process ends, it sends signal 0 instead of SIGCHLD. This has three effects. No handler of the job is
 * called. No wait() of the job finds the process, because wait() looks only for children that send SIGCHLD. And this
 * code can wait for the process even if SIGCHLD is ignored (clone(2), wait(2): __WCLONE). Both new processes use the
 * job's memory until they execute the program. So no memory is copied, however large the job is.
 *
 * When the job is process 1 of its container, or has made itself a subreaper, the kernel still makes the program a
 * child of the job. */
int msp_start_apart(char **argv, char **envp, int output, int errors) {
  char *stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stacks == MAP_FAILED) return -errno;
  order given = {argv, envp, output, errors, stacks + STACK_BYTES, 0, 0};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int pid = clone(starter, stacks + 2 * STACK_BYTES, CLONE_VM | CLONE_VFORK, &given);
  if (pid < 0) {
    given.error = errno;
  } else {
    while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR) continue;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  munmap(stacks, 2 * STACK_BYTES);
  return given.error != 0 ? -given.error : given.pid;
}
