// Keeps the device busy: one thread that waits, the work of a consumer in cuda_benchmark.
//
// spin.ptx is made from this file by scripts/make_ptx.

#include <stdint.h>

extern "C" __global__ void spin(uint64_t nanoseconds) {
  uint64_t start;
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}
