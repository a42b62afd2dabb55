/* A library with an allocator like PyTorch's: it takes blocks with posix_memalign and releases them with free. */
#include <stdlib.h>

void *take(size_t size) {
  void *memory = NULL;
  return posix_memalign(&memory, 64, size) == 0 ? memory : NULL;
}

/* Return memory that is not a block of the allocator. */
void *take_other(size_t size) { return malloc(size); }

void give(void *memory) { free(memory); }
