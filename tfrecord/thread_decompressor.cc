#include "tfrecord/thread_decompressor.h"

#include <memory>
#include <new>

namespace shardfeed {

libdeflate_decompressor* ThreadDecompressor() {
  struct Free {
    void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
  };
  thread_local std::unique_ptr<libdeflate_decompressor, Free> decompressor;
  if (!decompressor) decompressor.reset(libdeflate_alloc_decompressor());
  if (!decompressor) throw std::bad_alloc();
  return decompressor.get();
}

}  // namespace shardfeed
