// A kernel that keeps the device busy with one waiting thread: the consumer in cuda_benchmark.
//
// scripts/make_ptx makes spin.ptx from this file.

#include <stdint.h>

extern "C" __global__ void spin(uint64_t nanoseconds) {
  uint64_t start;
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}
