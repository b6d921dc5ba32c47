// Reads a text file, or a pipe, sequentially in bounded memory.

#ifndef SHARDFEED_CONVERT_INPUT_TEXT_READER_H_
#define SHARDFEED_CONVERT_INPUT_TEXT_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "convert/input/input_stream.h"
#include "convert/input/text_encoding.h"
#include "io/buffer.h"

namespace shardfeed {

// A line needs twice its size in memory.
inline constexpr uint64_t kDefaultMaxLineBytes = 64 << 20;

struct TextReaderOptions {
  // The encoding of the file, which is converted to UTF-8, unless a byte order mark names another;
  // nullopt: without a mark UTF-8, or Windows-1252 if the first read looks like it and is not
  // UTF-8. Whether the caller has an option for it, which errors then name.
  std::optional<TextEncoding> encoding = TextEncoding::kUtf8;
  bool offers_encodings = false;
  // Whether to check that the file does not start like a binary one.
  bool check_start = true;
  // Whether to check that the text is UTF-8 without NUL. Set to false only if the file was checked
  // before or the caller checks each line (IsText).
  bool check_text = true;
  // Size of the buffer and of a read. Grows only for a line (or a row of several lines) that needs
  // it.
  size_t buffer_bytes = 1 << 20;
  // A longer line or row is an error.
  uint64_t max_line_bytes = kDefaultMaxLineBytes;
  // Called after each read with the offset reached in the file, which may be compressed; a failure
  // ends the reading.
  std::function<absl::Status(uint64_t offset)> on_read;
};

// Whether `text` is UTF-8 without NUL.
bool IsText(std::string_view text);

// Reads a whole text, checked like any other, without its byte order mark. Errors: see TextReader;
// ResourceExhausted: it has more than `max_bytes`. With `encoding`, the text need not be UTF-8 (see
// TextReaderOptions), and what is told of its encoding is written there if it is not.
absl::StatusOr<std::string> ReadText(const std::string& path, uint64_t max_bytes,
                                     std::string* encoding = nullptr);

// Holds a moving part of a file in memory and splits it into lines. A UTF-8 byte order mark is
// skipped. Compressed files are decompressed: see InputStream. Not thread-safe.
//
// Functions that read return false at the end of the file and after an error; see status().
// DataLoss: not UTF-8 ("FILE:LINE: ..."), not text at all, or a line above the limit, with the
// remedy. NotFound and the like: the file cannot be read.
class TextReader {
 public:
  static absl::StatusOr<std::unique_ptr<TextReader>> Open(const std::string& path,
                                                          TextReaderOptions options);
  // The error for a line above the limit. `place` is "FILE:LINE".
  static absl::Status TooLong(std::string_view place, uint64_t max_line_bytes);

  struct Line {
    std::string_view text;  // the line without its LF or CRLF; valid until the next call
    uint64_t number = 0;    // 1-based
  };
  // Reads the next line. The last line need not end with a line break.
  bool NextLine(Line* line);

  // Text that has been read but not consumed. Views of it are valid until Extend or NextLine.
  std::string_view unread() const { return {buffer_->data() + begin_, end_ - begin_}; }
  // The encoding that the file is read as.
  TextEncoding encoding() const { return encoding_; }
  bool guessed_encoding() const { return guessed_encoding_; }
  // What is told of it: "UTF-8 with a byte order mark", "Windows-1252 (a guess: not UTF-8)".
  std::string EncodingText() const;
  // 1-based line where the unread text starts.
  uint64_t line() const { return line_; }
  // Byte offset in the content of the file, which is UTF-8, where the unread text starts.
  uint64_t offset() const { return stream_->offset() - (end_ - begin_); }
  // Whether the unread text extends to the end of the file.
  bool at_end() const { return at_end_; }
  // Consumes `bytes` of the unread text, which contain `line_breaks`.
  void Consume(size_t bytes, uint64_t line_breaks) {
    begin_ += bytes;
    line_ += line_breaks;
  }
  // Reads more, so that the unread text grows at its end by at least a byte. Returns false at the
  // end of the file (the unread text is then the whole rest) and after an error. The unread text at
  // least doubles between two calls that consume nothing, so the caller may search it from its
  // start each time.
  bool Extend();

  // The first error of reading, otherwise OK.
  const absl::Status& status() const { return status_; }

  // This many bytes after each line and after the unread text are readable; their values do not
  // matter.
  static constexpr size_t kPadding = 64;

 private:
  TextReader(std::unique_ptr<InputStream> stream, TextReaderOptions options);
  bool Fail(absl::Status status);
  absl::Status CheckStart();
  // Reads text of another encoding as UTF-8; returns 0 at the end.
  absl::StatusOr<size_t> ReadConverted(absl::Span<char> to);
  absl::Status CheckText(size_t from);

  std::unique_ptr<InputStream> stream_;
  TextReaderOptions options_;
  std::shared_ptr<Buffer> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t checked_ = 0;  // the buffer up to here is known to be UTF-8
  bool started_ = false;
  TextEncoding encoding_ = TextEncoding::kUtf8;
  bool has_mark_ = false;
  bool guessed_encoding_ = false;
  std::string raw_;  // bytes of another encoding that are not converted yet
  uint64_t line_ = 1;
  bool at_end_ = false;
  absl::Status status_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_TEXT_READER_H_
