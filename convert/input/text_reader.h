// A text file read front to back in bounded memory.

#ifndef SHARDFEED_CONVERT_INPUT_TEXT_READER_H_
#define SHARDFEED_CONVERT_INPUT_TEXT_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/buffer.h"
#include "io/file.h"

namespace shardfeed {

// Twice as much memory is needed for a line.
inline constexpr uint64_t kDefaultMaxLineBytes = 64 << 20;

struct TextReaderOptions {
  // Check that the file does not start like a binary one.
  bool check_start = true;
  // Check that the text is UTF-8 without NUL. To be left out only where the file was read before,
  // or where the caller checks each line (IsText).
  bool check_text = true;
  // Memory, and the size of a read. Grows only for a line (or a row of several) that needs it.
  size_t buffer_bytes = 1 << 20;
  // A longer line or row is an error.
  uint64_t max_line_bytes = kDefaultMaxLineBytes;
  // Called after each read with the offset reached in the file; a failure ends the reading.
  std::function<absl::Status(uint64_t offset)> on_read;
};

// Whether `text` is UTF-8 without NUL.
bool IsText(std::string_view text);

// A file of which a part that moves on is in memory, and on top of it lines. A byte order mark of
// UTF-8 is skipped. Not thread safe.
//
// Reading returns false at the end and after a failure; status() tells which. DataLoss: not UTF-8
// ("FILE:LINE: ..."), or not text at all, with the remedy. ResourceExhausted: a line above the
// limit. NotFound and the like: the file cannot be read.
class TextReader {
 public:
  static absl::StatusOr<std::unique_ptr<TextReader>> Open(const std::string& path,
                                                          TextReaderOptions options);
  // What reading fails with at a line above the limit. `place` is "FILE:LINE".
  static absl::Status TooLong(std::string_view place, uint64_t max_line_bytes);

  struct Line {
    std::string_view text;  // the line without its LF or CRLF; valid until the next call
    uint64_t number = 0;    // 1-based
  };
  // The last line need not have a line break.
  bool NextLine(Line* line);

  // Text read and not yet consumed. Views of it live until Extend or NextLine.
  std::string_view unread() const { return {buffer_->data() + begin_, end_ - begin_}; }
  // 1-based line where the unread text starts.
  uint64_t line() const { return line_; }
  // Where the unread text starts in the file, in bytes.
  uint64_t offset() const { return source_.position() - (end_ - begin_); }
  // True when the unread text reaches to the end of the file.
  bool at_end() const { return at_end_; }
  // Moves the unread text's start forward over `bytes` that hold `line_breaks`.
  void Consume(size_t bytes, uint64_t line_breaks) {
    begin_ += bytes;
    line_ += line_breaks;
  }
  // Reads on, so that the unread text grows at its end by at least a byte. False at the end of the
  // file (the unread text is then all that is left) and after a failure. The unread text at least
  // doubles between two calls that do not consume, so it may be looked through anew each time.
  bool Extend();

  // Not OK once reading has failed.
  const absl::Status& status() const { return status_; }

  // This many bytes after each line and after the unread text may be read, whatever they are.
  static constexpr size_t kPadding = 64;

 private:
  TextReader(std::shared_ptr<File> file, TextReaderOptions options);
  bool Fail(absl::Status status);
  absl::Status CheckStart();
  absl::Status CheckText(size_t from);

  std::shared_ptr<File> file_;
  FileSource source_;
  TextReaderOptions options_;
  std::shared_ptr<Buffer> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t checked_ = 0;  // text of the buffer up to here is known to be UTF-8
  uint64_t line_ = 1;
  bool at_end_ = false;
  absl::Status status_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_TEXT_READER_H_
