/* Compare the clock that threads compute from the time-stamp counter with the kernel's clock.
 *
 * usage: tsc follow MILLISECONDS | clock MILLISECONDS | made-up
 *
 * It returns 1 if a check fails, and 77 if this machine's counter is unreliable. tests/test_tsc.py builds it, and
 * native/sanitize.sh builds it with the sanitizers.
 */
#include "tsc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* DEVIATION_MOST, in ns, allows for the error of a pair of readings, half of 600 ticks at 2 GHz, and for the error
 * of the rate from two pairs 20 ms apart. */
enum { THREADS = 3, DEVIATION_MOST = 170 };

#define CHECK(condition)                                                  \
  do {                                                                    \
    if (!(condition)) {                                                   \
      fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                            \
    }                                                                     \
  } while (0)

typedef struct {
  uint64_t until_ns; /* when the comparison ends */
  uint64_t readings;
  uint64_t followed; /* readings that were computed from the counter */
  uint64_t furthest; /* most ns by which a reading was outside the two readings of the clock around it */
} watch;

static void compare(watch *seen, msp_tsc *tsc) {
  uint64_t last = 0;
  for (uint64_t before = msp_now(); before < seen->until_ns; before = msp_now()) {
    uint64_t began = tsc->ticks;
    uint64_t now = msp_tsc_now(tsc);
    uint64_t after = msp_now();
    CHECK(now >= last);
    last = now;
    uint64_t outside = now < before ? before - now : now > after ? now - after : 0;
    if (outside > seen->furthest) seen->furthest = outside;
    ++seen->readings;
    seen->followed += tsc->length != 0 && tsc->ticks == began;
    /* once a thread knows the rate, only two readings that are too far apart keep it from computing times */
    CHECK(seen->followed == 0 || tsc->length != 0 || tsc->failed != 0);
  }
}

static void *watched(void *argument) {
  msp_tsc tsc = {0};
  compare(argument, &tsc);
  return NULL;
}

/* Compare on several threads, and in a fork child, where a thread's state may be half-written. */
static int compare_all(uint64_t ns, bool follows) {
  watch seen[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    seen[i] = (watch){.until_ns = msp_now() + ns};
    CHECK(pthread_create(&threads[i], NULL, watched, &seen[i]) == 0);
  }
  usleep((useconds_t)(ns / 2000));
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    msp_tsc_after_fork();
    watch inherited = {.until_ns = msp_now() + ns / 4};
    watched(&inherited);
    CHECK(inherited.furthest <= DEVIATION_MOST);
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(threads[i], NULL);
    printf("%llu readings, %llu computed, at most %llu ns outside\n", (unsigned long long)seen[i].readings,
           (unsigned long long)seen[i].followed, (unsigned long long)seen[i].furthest);
    CHECK(seen[i].furthest <= DEVIATION_MOST);
    /* Not "most readings": on some machines, no two readings are near each other for many milliseconds. */
    CHECK(follows ? seen[i].followed > 0 : seen[i].followed == 0);
  }
  CHECK(msp_tsc_trusted() == follows);
  return 0;
}

/* The readings of a made-up machine, whose counter has two ticks per ns. */
static msp_tsc_pair place = {5000000000u, 7000000000u, 100, 1ull << 62};

/* Let `ms` pass on the made-up machine, begin a line of the computed clock there, and return its time. */
static uint64_t later(msp_tsc *tsc, uint64_t ms) {
  place.ticks += 2000000 * ms;
  place.ns += 1000000 * ms;
  return msp_tsc_begin(tsc, &place);
}

static int make_up(void) {
  msp_tsc tsc = {0};
  CHECK(later(&tsc, 0) == place.ns && tsc.length == 0); /* the machine slept after msp_tsc_init: measure anew */
  CHECK(later(&tsc, 19) == place.ns && tsc.length == 0);
  place.slept += 3000000000u;
  place.ticks += 6000000000u;
  CHECK(later(&tsc, 30) == place.ns && tsc.length == 0); /* it slept again: measure anew */
  CHECK(later(&tsc, 20) == place.ns);
  CHECK(tsc.length == 8000000 && tsc.rate == 1u << 31 && tsc.ticks == place.ticks && tsc.ns == place.ns);
  CHECK(later(&tsc, 19) == place.ns && tsc.length == 8000000);
  CHECK(later(&tsc, 1) == place.ns && tsc.length == 16000000 && tsc.rate == 1u << 31); /* known from 40 ms */
  place.ticks += 2000000000u; /* the counter is a second ahead: its rate stays, and is measured anew from here */
  CHECK(later(&tsc, 40) == place.ns && tsc.length == 16000000 && tsc.rate == 1u << 31);
  CHECK(later(&tsc, 79) == place.ns && tsc.length == 16000000);
  CHECK(later(&tsc, 1) == place.ns && tsc.length == 32000000 && tsc.rate == 1u << 31);
  CHECK(later(&tsc, 1000) == place.ns && tsc.length == 128000000); /* a line is not longer than 64 ms */
  place.width = 700; /* an interrupt between the two readings of a pair: no computed clock for now */
  CHECK(later(&tsc, 1) == place.ns && tsc.length == 0);
  place.width = 100;
  CHECK(later(&tsc, 1) == place.ns && tsc.length != 0);
  place.width = 700; /* the machine is slow for some milliseconds: the thread reads the clock alone, and tries again */
  for (int i = 0; i < 100; ++i) CHECK(later(&tsc, 1) == place.ns && tsc.length == 0 && msp_tsc_trusted());
  CHECK(tsc.paused_ns == place.ns + 10000000u);
  tsc.paused_ns = UINT64_MAX;
  CHECK(msp_tsc_now(&tsc) != 0 && tsc.length == 0);
  tsc.last_ns = 0;
  place.width = 100;
  CHECK(later(&tsc, 10) == place.ns && tsc.length != 0 && tsc.failed == 0);
  place.ns -= 30; /* the clock is 30 ns back: a thread's time stands still instead of going back, too */
  uint64_t last = msp_tsc_not_before(&tsc, place.ns + 30);
  CHECK(later(&tsc, 0) == last && tsc.ns == last - 30);
  place.ticks += 3600 * 2000000000ull; /* the machine was suspended, and the clock did not run */
  CHECK(later(&tsc, 2) == place.ns && tsc.ns == place.ns && msp_tsc_trusted());
  place.ticks = 1000; /* the counter began anew */
  CHECK(later(&tsc, 2) == place.ns && tsc.ticks == place.ticks && msp_tsc_trusted());
  place.ticks += 4000; /* the counter is 2 us ahead of the clock */
  CHECK(later(&tsc, 1) == place.ns);
  CHECK(!msp_tsc_trusted() && tsc.length == 0);
  uint64_t before = msp_now();
  CHECK(msp_tsc_now(&tsc) >= before);
  CHECK(tsc.length == 0);
  return 0;
}

int main(int count, char **arguments) {
  msp_tsc_init();
  if (!msp_tsc_trusted()) return 77;
  if (count == 2 && strcmp(arguments[1], "made-up") == 0) return make_up();
  if (count != 3) return 2;
  bool follows = strcmp(arguments[1], "follow") == 0;
  if (!follows) msp_tsc_distrust();
  return compare_all(strtoull(arguments[2], NULL, 10) * 1000000u, follows);
}
