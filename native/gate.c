#include "gate.h"

#include <stddef.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define PATIENCE_NS 10000000000u /* longest wait of msp_gate_close */

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static msp_gate before_init = {0, 0, 1};
static uint32_t holders;
static uint32_t
    last_session; /* not reset in fork children: their sessions must get numbers that the parent has not used */

msp_gate *msp_gate_page = &before_init;
bool msp_gate_wiped_on_fork;

void msp_gate_init(void) {
  size_t size = (size_t)sysconf(_SC_PAGESIZE);
  void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  msp_gate_wiped_on_fork = madvise(page, size, MADV_WIPEONFORK) == 0;
  msp_gate_page = page;
  msp_gate_page->alive = 1;
}

/* Hold the session. A thread counts itself as a holder before it reads the session. msp_gate_close clears the session
 * before it reads the number of holders. Because of this order, either the thread sees that the session is closed, or
 * msp_gate_close sees the holder. */
bool msp_gate_hold(uint32_t session) {
  if (session == 0) return false;
  __atomic_add_fetch(&holders, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&msp_gate_page->session, __ATOMIC_SEQ_CST) == session) return true;
  msp_gate_let_go();
  return false;
}

void msp_gate_let_go(void) { __atomic_sub_fetch(&holders, 1, __ATOMIC_SEQ_CST); }

uint32_t msp_gate_next(void) {
  if (++last_session == 0) ++last_session;
  __atomic_store_n(&msp_gate_page->refuse, 0, __ATOMIC_RELAXED);
  return last_session;
}

void msp_gate_open(uint32_t session) { __atomic_store_n(&msp_gate_page->session, session, __ATOMIC_SEQ_CST); }

bool msp_gate_close(void) {
  __atomic_store_n(&msp_gate_page->session, 0, __ATOMIC_SEQ_CST);
  const struct timespec pause = {0, 20000};
  const uint64_t end = msp_clock_read(CLOCK_MONOTONIC) + PATIENCE_NS;
  while (__atomic_load_n(&holders, __ATOMIC_SEQ_CST) != 0) {
    if (msp_clock_read(CLOCK_MONOTONIC) >= end) return false;
    nanosleep(&pause, NULL);
  }
  return true;
}

void msp_gate_after_fork(void) {
  __atomic_store_n(&holders, 0, __ATOMIC_RELAXED);
  msp_gate_page->session = 0;
  msp_gate_page->refuse = 0;
  msp_gate_page->alive = 1;
}
