/* Tell operators, regions and exchanges on many threads through a fake of PyTorch's library, switch the recording on
 * and off meanwhile, and check the records.
 *
 * usage: operators FOLDER ROUNDS SEED
 *
 * native/sanitize.sh builds it with the sanitizers. A failed check aborts the program. It needs the library
 * libtorch_fake.so.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fakes/torch.h"
#include "check.h"
#include "file_format.h"
#include "observer.h"
#include "recorder.h"

enum { THREADS = 4, TREES = 300, DEEPEST = 6, REGIONS = 3 };

static void (*begin)(torch_operator *), (*finish)(torch_operator *), (*be_thread)(uint64_t);

/* The exchanges that each thread has begun, which the next thread ends. */
static torch_operator exchanges[THREADS][TREES];
/* Functions of TorchScript that each thread begins, and another thread ends. */
static torch_operator scripts[THREADS][TREES];
static uint32_t begun[THREADS], ended[THREADS];

static uint32_t random_below(unsigned *seed, uint32_t limit) { return (uint32_t)rand_r(seed) % limit; }

typedef struct {
  int number;
  unsigned seed;
  uint32_t operators; /* that have begun */
} player;

/* Run an operator with operators inside. */
static void operate(player *one, int depth) {
  static const char *const names[] = {"aten::add", "aten::mm", "autograd::engine::evaluate_function: AddBackward0"};
  torch_operator told = {.name = names[random_below(&one->seed, 3)],
                         .thread = (uint64_t)one->number + 1,
                         .sequence = (int64_t)random_below(&one->seed, 50) - 1,
                         .scope = (uint8_t)random_below(&one->seed, 2)};
  begin(&told);
  ++one->operators;
  while (depth < DEEPEST && random_below(&one->seed, 3) == 0) operate(one, depth + 1);
  finish(&told);
}

/* Begin regions, end them in any order, and hand one over to the end of an asynchronous call. */
static void mark(player *one) {
  torch_operator regions[REGIONS];
  for (int i = 0; i < REGIONS; ++i) {
    regions[i] = (torch_operator){
        .name = i == 2 ? "last" : "region", .thread = (uint64_t)one->number + 1, .sequence = -1, .scope = TORCH_USER};
    begin(&regions[i]);
    operate(one, 0);
  }
  msp_observer_hand_over("another");
  msp_observer_hand_over("last");
  regions[2].async = true;
  finish(&regions[2]);
  uint32_t first = random_below(&one->seed, 2);
  finish(&regions[first]);
  operate(one, 0);
  finish(&regions[1 - first]);
}

static void *play(void *argument) {
  player *one = argument;
  be_thread((uint64_t)one->number + 1);
  for (uint32_t tree = 0; tree < TREES; ++tree) {
    torch_operator *exchange = &exchanges[one->number][tree];
    *exchange = (torch_operator){.name = tree % 2 ? "ucc:all_reduce" : "gloo:send",
                                 .thread = (uint64_t)one->number + 1,
                                 .sequence = -1,
                                 .scope = TORCH_USER,
                                 .async = true};
    torch_operator here = *exchange, mobile = {.name = "mobile", .scope = TORCH_MOBILE};
    here.name = "nccl:all_reduce";
    begin(&mobile);
    begin(&here);
    begin(exchange);
    scripts[one->number][tree] =
        (torch_operator){.name = "forks", .thread = (uint64_t)one->number + 1, .sequence = -1, .scope = TORCH_SCRIPT};
    begin(&scripts[one->number][tree]);
    __atomic_store_n(&begun[one->number], tree + 1, __ATOMIC_RELEASE);
    operate(one, 0);
    finish(&here);
    mark(one);
    CHECK(msp_observer_region("## graph", one));
    msp_observer_region_end(one);
    finish(&mobile);
    int other = (one->number + 1) % THREADS;
    while (__atomic_load_n(&begun[other], __ATOMIC_ACQUIRE) <= tree) usleep(10);
    finish(&exchanges[other][tree]);
    finish(&scripts[other][tree]);
    __atomic_add_fetch(&ended[other], 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&ended[one->number], __ATOMIC_ACQUIRE) <= tree) usleep(10);
    operate(one, DEEPEST); /* notices that the function has ended */
    CHECK(msp_observer_open() == 0);
  }
  return NULL;
}

typedef struct {
  uint32_t operators, markers, exchanges, open;
} records;

static void count(const msp_slot *slot, records *found) {
  if (slot->kind == MSP_KIND_OPEN) ++found->open;
  if (slot->kind == MSP_KIND_SPAN && slot->category == MSP_CATEGORY_OP) ++found->operators;
  if (slot->kind == MSP_KIND_SPAN && slot->category == MSP_CATEGORY_MARKER) ++found->markers;
  if (slot->kind == MSP_KIND_INSTANT && slot->category == MSP_CATEGORY_COMMUNICATION) ++found->exchanges;
  if (slot->kind == MSP_KIND_SPAN) CHECK(slot->flags == 0 && slot->start_ns <= slot->end_ns);
}

static records read_slots(const char *folder) {
  records found = {0};
  DIR *files = opendir(folder);
  CHECK(files != NULL);
  for (struct dirent *each; (each = readdir(files)) != NULL;) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, each->d_name);
    if (strstr(each->d_name, ".seg") == NULL) continue;
    int file = open(path, O_RDONLY);
    msp_slot slot;
    for (off_t at = MSP_HEADER_SIZE; pread(file, &slot, sizeof slot, at) == (ssize_t)sizeof slot;) {
      at += (off_t)(sizeof slot * (1u + slot.extra));
      count(&slot, &found);
    }
    close(file);
  }
  closedir(files);
  return found;
}

static void run(const char *folder, unsigned seed) {
  CHECK(mkdir(folder, 0750) == 0 && msp_open(folder, 64, "", UINT64_MAX, UINT64_MAX, 0) == 0);
  memset(begun, 0, sizeof begun);
  memset(ended, 0, sizeof ended);
  msp_observer_switch(true);
  pthread_t threads[THREADS];
  player players[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    players[i] = (player){.number = i, .seed = seed + (unsigned)i};
    CHECK(pthread_create(&threads[i], NULL, play, &players[i]) == 0);
  }
  records expected = {.markers = THREADS * TREES * REGIONS, .exchanges = THREADS * TREES};
  for (int i = 0; i < THREADS; ++i) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    expected.operators += players[i].operators + 3 * TREES; /* and "nccl:all_reduce", "forks", "## graph" */
  }
  msp_observer_switch(false);
  CHECK(!msp_observer_region("## graph", folder));
  CHECK(msp_close() == 0);
  records found = read_slots(folder);
  CHECK(found.open == 0 && found.operators == expected.operators);
  CHECK(found.markers == expected.markers && found.exchanges == expected.exchanges);
}

int main(int argc, char **argv) {
  CHECK(argc == 4);
  CHECK(msp_recorder_init() == 0);
  const char *library = "libtorch_fake.so";
  void *loaded = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  CHECK(loaded != NULL);
  begin = (void (*)(torch_operator *))dlsym(loaded, "torch_begin");
  finish = (void (*)(torch_operator *))dlsym(loaded, "torch_finish");
  be_thread = (void (*)(uint64_t))dlsym(loaded, "torch_thread");
  CHECK(begin != NULL && finish != NULL && be_thread != NULL);
  const msp_observer_layout layout = {offsetof(torch_operator, thread), offsetof(torch_operator, scope),
                                      offsetof(torch_operator, sequence), offsetof(torch_operator, forward),
                                      offsetof(torch_operator, async)};
  CHECK(msp_observer_connect("libnone.so", &layout) != NULL && msp_observer_connect(library, &layout) == NULL);
  for (int round = 0; round < atoi(argv[2]); ++round) {
    char folder[512];
    snprintf(folder, sizeof folder, "%s/operators.%d", argv[1], round);
    run(folder, (unsigned)(atoi(argv[3]) + round));
  }
  return 0;
}
