/* The objects that the fake of PyTorch's libtorch_cpu tells as operators. */
#ifndef TORCH_H
#define TORCH_H

#include <stdbool.h>
#include <stdint.h>

/* The callback returns an object in memory whose address the caller passes, as a C++ function does with a
 * std::unique_ptr. C passes this address for objects of more than two words. It writes the first word only. */
typedef struct {
  void *pointer, *rest[2];
} torch_result;

typedef torch_result (*torch_start)(const void *told);
typedef void (*torch_end)(const void *told, void *context);

/* at::RecordFunction; the order is not PyTorch's */
typedef struct {
  const char *name;
  torch_end end;
  uint64_t thread;
  int64_t sequence;
  uint64_t forward;
  uint8_t scope;
  bool async;
} torch_operator;

enum { TORCH_FUNCTION = 0, TORCH_BACKWARD = 1, TORCH_SCRIPT = 2, TORCH_MOBILE = 6, TORCH_USER = 7 };

/* Set PyTorch's number of the calling thread. */
void torch_thread(uint64_t number);

void torch_begin(torch_operator *told);
void torch_finish(torch_operator *told);

#endif
