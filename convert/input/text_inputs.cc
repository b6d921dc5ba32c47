#include "convert/input/text_inputs.h"

#include <utility>

namespace shardfeed {

absl::StatusOr<std::unique_ptr<TextReader>> TextFiles::OpenFirst(
    size_t i, bool check_text, std::stop_token stop,
    const std::function<void(uint64_t bytes)>& progress) const {
  TextReaderOptions options;
  options.check_text = check_text;
  options.encoding = encoding_;
  options.offers_encodings = offers_encodings_;
  options.max_line_bytes = max_line_bytes_;
  options.on_read = [stop = std::move(stop), &progress,
                     before = bytes_before(i)](uint64_t offset) -> absl::Status {
    if (stop.stop_requested()) return absl::CancelledError("interrupted");
    if (progress) progress(before + offset);
    return absl::OkStatus();
  };
  return TextReader::Open(path(i), std::move(options));
}

absl::StatusOr<std::unique_ptr<TextReader>> TextFiles::OpenAgain(size_t i,
                                                                 TextEncoding encoding) const {
  TextReaderOptions options;
  options.check_start = options.check_text = false;
  options.encoding = encoding;
  options.max_line_bytes = max_line_bytes_;
  return TextReader::Open(path(i), std::move(options));
}

}  // namespace shardfeed
