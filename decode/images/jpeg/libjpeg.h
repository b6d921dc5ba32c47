// What every use of libjpeg takes: its errors as absl::Status, bytes in memory as its input, and a
// limit for its scans.
//
// libjpeg's error handler must not return; here it jumps (longjmp) to the frame that called
// setjmp(errors.jump). No frame between the two may hold an object with a destructor, so calls of
// libjpeg stand in functions that have only trivial variables, and everything else belongs to
// their callers.

#ifndef SHARDFEED_DECODE_IMAGES_JPEG_LIBJPEG_H_
#define SHARDFEED_DECODE_IMAGES_JPEG_LIBJPEG_H_

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"
// After <cstdio>, which it takes for granted.
#include "jpeglib.h"

namespace shardfeed {

// One for each libjpeg object, or for several that are used together.
struct LibjpegErrors : jpeg_error_mgr {
  LibjpegErrors();

  // Forgets the error of the image before.
  void Reset(bool accept_damaged_images);

  // What happened, for an image of `num_bytes` bytes. Unimplemented: libjpeg cannot do this kind
  // of JPEG. ResourceExhausted: memory, or too many scans. DataLoss: damaged; the message tells
  // where a file is cut off.
  absl::Status ToStatus(uint64_t num_bytes) const;

  std::jmp_buf jump;
  // False: damage that libjpeg would only warn about is an error. True: it fills in what is
  // missing.
  bool accept_damaged = false;
  bool cut_off = false;  // the input ended too early
  bool too_many_scans = false;
  int code = 0;  // libjpeg's number of the message; 0: no error
  char text[JMSG_LENGTH_MAX] = {};
};

// `jpeg` as the input. The object's errors must be a LibjpegErrors.
struct LibjpegMemory : jpeg_source_mgr {
  LibjpegMemory();
  void Start(std::string_view jpeg);
};

// Output of libjpeg to a string, which is not empty at first and grows as it takes.
struct LibjpegOutput : jpeg_destination_mgr {
  explicit LibjpegOutput(std::string* out);

  std::string* out;
};

// Ends the decoding of an image whose scan `max_scans` + 1 begins.
struct LibjpegScanLimit : jpeg_progress_mgr {
  explicit LibjpegScanLimit(int max_scans);

  int max_scans;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_LIBJPEG_H_
