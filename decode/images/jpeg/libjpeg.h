// Shared by all uses of libjpeg: errors as absl::Status, input from and output to memory, and a
// limit on the number of scans.
//
// libjpeg's error handler must not return; here it calls longjmp to the frame that called
// setjmp(errors.jump). No frame between the two may hold an object with a destructor, so libjpeg is
// called only by functions that have only trivial variables; everything else belongs to their
// callers.

#ifndef SHARDFEED_DECODE_IMAGES_JPEG_LIBJPEG_H_
#define SHARDFEED_DECODE_IMAGES_JPEG_LIBJPEG_H_

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"
// Must follow <cstdio>, which it does not include itself.
#include "jpeglib.h"

namespace shardfeed {

// One for each libjpeg object, or for several that are used together.
struct LibjpegErrors : jpeg_error_mgr {
  LibjpegErrors();

  // Clears the error of the previous image.
  void Reset(bool accept_damaged_images);

  // The error, for an image of `num_bytes` bytes. Unimplemented: libjpeg does not support this kind
  // of JPEG. ResourceExhausted: not enough memory, or too many scans. DataLoss: damaged; the
  // message says where the file is cut off.
  absl::Status ToStatus(uint64_t num_bytes) const;

  std::jmp_buf jump;
  // Whether libjpeg fills in what is missing from a damaged image; otherwise its warnings are
  // errors.
  bool accept_damaged = false;
  bool cut_off = false;  // the input ended too early
  bool too_many_scans = false;
  int code = 0;           // libjpeg's message code; 0 without an error
  bool in_scans = false;  // whether the error came after the header
  char text[JMSG_LENGTH_MAX] = {};
};

// Input from memory. The object's errors must be a LibjpegErrors.
struct LibjpegMemory : jpeg_source_mgr {
  LibjpegMemory();
  void Start(std::string_view jpeg);
};

// Output to a string, which must not be empty at first and grows as needed.
struct LibjpegOutput : jpeg_destination_mgr {
  explicit LibjpegOutput(std::string* out);

  std::string* out;
};

// Stops decoding when scan `max_scans` + 1 begins.
struct LibjpegScanLimit : jpeg_progress_mgr {
  explicit LibjpegScanLimit(int max_scans);

  int max_scans;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_LIBJPEG_H_
