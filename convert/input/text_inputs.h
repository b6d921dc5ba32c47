// The text files that a source reads.

#ifndef SHARDFEED_CONVERT_INPUT_TEXT_INPUTS_H_
#define SHARDFEED_CONVERT_INPUT_TEXT_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/input/checked_files.h"
#include "convert/input/text_encoding.h"
#include "convert/input/text_reader.h"

namespace shardfeed {

// Call Stat, then OpenFirst for each file, then OpenAgain any number of times. Const functions are
// thread-safe.
class TextFiles : public InputFiles {
 public:
  TextFiles(std::vector<std::string> paths, uint64_t max_line_bytes)
      : InputFiles(std::move(paths)), max_line_bytes_(max_line_bytes) {}

  uint64_t max_line_bytes() const { return max_line_bytes_; }

  // Reads files as of this encoding; nullopt: as each file looks (see TextReaderOptions). Without
  // this call they must be UTF-8.
  void SetEncoding(std::optional<TextEncoding> encoding) {
    encoding_ = encoding;
    offers_encodings_ = true;
  }

  // Opens file `i` for the first pass. If `check_text`, reading checks that the text is UTF-8;
  // otherwise the caller must. Reading fails with Cancelled once `stop` is requested, and calls
  // `progress` with the number of bytes read so far, including the files before `i`. `progress`
  // must outlive the reader.
  absl::StatusOr<std::unique_ptr<TextReader>> OpenFirst(
      size_t i, bool check_text, std::stop_token stop,
      const std::function<void(uint64_t bytes)>& progress) const;

  // Opens file `i` for a later pass, as of the encoding that the first pass found.
  absl::StatusOr<std::unique_ptr<TextReader>> OpenAgain(
      size_t i, TextEncoding encoding = TextEncoding::kUtf8) const;

 private:
  const uint64_t max_line_bytes_;
  std::optional<TextEncoding> encoding_ = TextEncoding::kUtf8;
  bool offers_encodings_ = false;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_TEXT_INPUTS_H_
