// The structures by which Arrow's libraries hand each other data within a process: Arrow's C data
// interface and C stream interface (arrow.apache.org/docs/format/CDataInterface.html). Their layout
// is fixed. Whoever holds a structure calls its `release` once; null says that this was done.

#ifndef SHARDFEED_DECODE_ARROW_ABI_H_
#define SHARDFEED_DECODE_ARROW_ABI_H_

#include <cstdint>

extern "C" {

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema* out);
  int (*get_next)(ArrowArrayStream*, ArrowArray* out);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

}  // extern "C"

namespace shardfeed {

inline constexpr int64_t kArrowNullable = 2;  // ARROW_FLAG_NULLABLE

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_ARROW_ABI_H_
