// The calling thread's libdeflate decompressor, created on first use. Throws std::bad_alloc.

#ifndef SHARDFEED_TFRECORD_THREAD_DECOMPRESSOR_H_
#define SHARDFEED_TFRECORD_THREAD_DECOMPRESSOR_H_

#include <libdeflate.h>

namespace shardfeed {

libdeflate_decompressor* ThreadDecompressor();

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_THREAD_DECOMPRESSOR_H_
