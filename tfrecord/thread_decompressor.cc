#include "tfrecord/thread_decompressor.h"

#include <memory>

namespace shardfeed {

libdeflate_decompressor* ThreadDecompressor() {
  struct Free {
    void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
  };
  thread_local const std::unique_ptr<libdeflate_decompressor, Free> decompressor(
      libdeflate_alloc_decompressor());
  return decompressor.get();
}

}  // namespace shardfeed
