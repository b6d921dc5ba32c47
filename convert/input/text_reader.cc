#include "convert/input/text_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/types/span.h"
#include "base/utf8.h"
#include "convert/input/codec.h"
#include "fmt/format.h"
#include "io/remedy.h"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;

// Magic bytes of files that are not UTF-8 text, and the remedy for each.
struct Magic {
  std::string_view bytes;
  const char* what;
};
constexpr Magic kNotText[] = {
    {"\x04\x22\x4d\x18"sv, "is compressed with LZ4; decompress it first (lz4 -d)"},
    {"\xff\xd8\xff"sv, "is a JPEG, not text"},
    {"\x89PNG"sv, "is a PNG, not text"},
    {"PK\x03\x04"sv, "is a ZIP archive or an Excel workbook; unpack it, or save it as CSV"},
};

// Returns the size of an incomplete character at the end of `text`: 0 to 3 bytes.
size_t CutCharacter(std::string_view text) {
  for (size_t n = 1; n <= std::min<size_t>(3, text.size()); ++n) {
    const auto byte = static_cast<unsigned char>(text[text.size() - n]);
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) {
      const size_t size = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      return size > n ? n : 0;
    }
  }
  return 0;
}

}  // namespace

bool IsText(std::string_view text) {
  return IsUtf8(text) && std::memchr(text.data(), 0, text.size()) == nullptr;
}

absl::StatusOr<std::string> ReadText(const std::string& path, uint64_t max_bytes,
                                     std::string* encoding) {
  TextReaderOptions options;
  if (encoding != nullptr) options.encoding = std::nullopt;
  absl::StatusOr<std::unique_ptr<TextReader>> reader = TextReader::Open(path, options);
  if (!reader.ok()) return reader.status();
  if (encoding != nullptr && (*reader)->encoding() != TextEncoding::kUtf8) {
    *encoding = (*reader)->EncodingText();
  }
  std::string text;
  do {
    std::string_view more = (*reader)->unread();
    // A character may not have been read in full; a line has.
    if (!(*reader)->at_end()) more = more.substr(0, more.rfind('\n') + 1);
    if (more.size() > max_bytes - text.size()) {
      return absl::ResourceExhaustedError(
          fmt::format("{}: expected at most {} bytes, got more", path, max_bytes));
    }
    text += more;
    (*reader)->Consume(more.size(), std::count(more.begin(), more.end(), '\n'));
  } while ((*reader)->Extend());
  if (!(*reader)->status().ok()) return (*reader)->status();
  return text;
}

absl::Status TextReader::TooLong(std::string_view place, uint64_t max_line_bytes) {
  return WithRemedy(absl::DataLossError(fmt::format("{}: the record is longer than {} bytes", place,
                                                    max_line_bytes)),
                    {"max_record", "SIZE", "raise the limit, which needs twice as much memory"});
}

TextReader::TextReader(std::unique_ptr<InputStream> stream, TextReaderOptions options)
    : stream_(std::move(stream)), options_(std::move(options)) {
  buffer_ = Buffer::Allocate(std::max<size_t>(options_.buffer_bytes, 32) + kPadding);
}

absl::StatusOr<std::unique_ptr<TextReader>> TextReader::Open(const std::string& path,
                                                             TextReaderOptions options) {
  absl::StatusOr<std::unique_ptr<InputStream>> stream = InputStream::Open(path);
  if (!stream.ok()) return stream.status();
  (*stream)->AdviseSequential();
  auto reader = std::unique_ptr<TextReader>(new TextReader(*std::move(stream), std::move(options)));
  reader->Extend();
  if (!reader->status_.ok()) return reader->status_;
  return reader;
}

bool TextReader::Fail(absl::Status status) {
  status_ = std::move(status);
  return false;
}

bool TextReader::Extend() {
  if (at_end_ || !status_.ok()) return false;
  const size_t kept = end_ - begin_;
  if (kept > options_.max_line_bytes) {
    return Fail(TooLong(fmt::format("{}:{}", stream_->path(), line_), options_.max_line_bytes));
  }
  // Data is never read into the padding.
  const size_t capacity = buffer_->size() - kPadding;
  if (kept > capacity / 2) {
    std::shared_ptr<Buffer> larger = Buffer::Allocate(2 * capacity + kPadding);
    std::memcpy(larger->data(), buffer_->data() + begin_, kept);
    buffer_ = std::move(larger);
  } else {
    std::memmove(buffer_->data(), buffer_->data() + begin_, kept);
  }
  checked_ -= begin_;
  begin_ = 0;
  end_ = kept;
  const absl::Span<char> free =
      absl::MakeSpan(buffer_->data() + end_, buffer_->size() - kPadding - end_);
  absl::StatusOr<size_t> n =
      encoding_ == TextEncoding::kUtf8 ? stream_->Read(free) : ReadConverted(free);
  if (!n.ok()) return Fail(n.status());
  end_ += *n;
  if (!std::exchange(started_, true)) {
    if (absl::Status status = CheckStart(); !status.ok()) return Fail(std::move(status));
    if (encoding_ != TextEncoding::kUtf8) {
      raw_ = unread();
      begin_ = end_ = checked_ = 0;
      n = ReadConverted(free);
      if (!n.ok()) return Fail(n.status());
      end_ = *n;
    }
  }
  at_end_ = *n == 0 || (stream_->at_end() && raw_.empty());
  std::memset(buffer_->data() + end_, 0, kPadding);
  if (options_.check_text) {
    if (absl::Status status = CheckText(checked_); !status.ok()) return Fail(std::move(status));
  }
  if (options_.on_read) {
    if (absl::Status status = options_.on_read(stream_->file_offset()); !status.ok()) {
      return Fail(std::move(status));
    }
  }
  return *n > 0;
}

std::string TextReader::EncodingText() const {
  std::string text(TextEncodingName(encoding_));
  if (has_mark_ && encoding_ == TextEncoding::kUtf8) text += " with a byte order mark";
  if (guessed_encoding_) text += " (a guess: not UTF-8)";
  return text;
}

absl::Status TextReader::CheckStart() {
  std::string_view wide = FindWideEncoding(unread());
  const std::optional<ByteOrderMark> mark = FindByteOrderMark(unread());
  const bool utf8 = mark && mark->encoding == TextEncoding::kUtf8;
  if (utf8 || (mark && options_.encoding != TextEncoding::kUtf8)) {
    Consume(mark->bytes, 0);
    checked_ = begin_;
    encoding_ = mark->encoding;
    has_mark_ = true;
    if (utf8) wide = FindWideEncoding(unread());  // which may follow by mistake
  } else if (!mark) {
    std::string_view start = unread();
    if (!stream_->at_end()) start.remove_suffix(CutCharacter(start));
    guessed_encoding_ = !options_.encoding && !IsUtf8(start) && LooksLikeWindows1252(start);
    encoding_ = guessed_encoding_ ? TextEncoding::kWindows1252
                                  : options_.encoding.value_or(TextEncoding::kUtf8);
  }
  if (!options_.check_start) return absl::OkStatus();
  const std::string_view text = unread();
  if (CodecOf(text) != Codec::kNone) {
    return absl::DataLossError(fmt::format("{}: is compressed twice; decompress it once ({} -d)",
                                           stream_->path(), CodecProgram(CodecOf(text))));
  }
  for (const Magic& magic : kNotText) {
    if (text.starts_with(magic.bytes)) {
      return absl::DataLossError(fmt::format("{}: {}", stream_->path(), magic.what));
    }
  }
  const bool utf32 = wide.starts_with("UTF-32");
  if (wide.empty() || (encoding_ != TextEncoding::kUtf8 && !utf32)) return absl::OkStatus();
  if (options_.offers_encodings && !utf32) {
    return WithRemedy(absl::DataLossError(fmt::format("{}: looks like {}", stream_->path(), wide)),
                      {"encoding", text[0] == '\0' || text[0] == '\xfe' ? "utf-16be" : "utf-16le",
                       "read it as such"});
  }
  return WideEncodingError(stream_->path(), wide);
}

absl::StatusOr<size_t> TextReader::ReadConverted(absl::Span<char> to) {
  constexpr size_t kRead = 256 << 10;
  while (true) {
    const std::string_view part = std::string_view(raw_).substr(0, to.size() / kMaxUtf8PerByte);
    const ConvertedText converted = ConvertToUtf8(encoding_, part, to.data());
    raw_.erase(0, converted.read);
    if (converted.written > 0) return converted.written;
    const auto error = [this](std::string_view what, size_t at) {
      const std::string_view text = unread();
      const std::string_view raw = std::string_view(raw_).substr(0, at);
      return absl::DataLossError(
          fmt::format("{}:{}: {} at byte {} of the file", stream_->path(),
                      line_ + std::ranges::count(text, '\n') + std::ranges::count(raw, '\n'), what,
                      stream_->offset() - raw_.size() + at));
    };
    if (!converted.valid) return error("not UTF-16: half of a character", 0);
    // What is left is less than a character.
    const size_t kept = raw_.size();
    raw_.resize(kept + kRead);
    absl::StatusOr<size_t> n = stream_->Read(absl::MakeSpan(raw_).subspan(kept));
    raw_.resize(kept + n.value_or(0));
    if (!n.ok()) return n.status();
    if (*n == 0) {
      if (kept > 0) return error("the file ends inside a character", 0);
      return 0;
    }
    if (!guessed_encoding_) continue;
    if (const auto unlike = FindUnlikeWindows1252(raw_)) {
      return WithRemedy(
          error("Windows-1252 was guessed from the beginning of the file, but what is "
                "not Windows-1252 follows",
                *unlike),
          {"encoding", "NAME", "say what it is"});
    }
  }
}

absl::Status TextReader::CheckText(size_t from) {
  std::string_view text(buffer_->data() + from, end_ - from);
  // A character that the read has cut is checked with the next read.
  if (!at_end_) text.remove_suffix(CutCharacter(text));
  checked_ = from + text.size();
  if (IsText(text)) return absl::OkStatus();

  // No character spans a line break, so lines can be checked one by one to find the first bad one.
  uint64_t line = line_ + std::count(unread().data(), text.data(), '\n');
  while (true) {
    const std::string_view one = text.substr(0, text.find('\n'));
    const size_t nul = one.find('\0');
    if (nul != std::string_view::npos || !IsUtf8(one)) {
      const uint64_t offset = stream_->offset() - (buffer_->data() + end_ - one.data());
      const std::string_view of =
          stream_->compressed() ? stream_->content_name() : std::string_view(" of the file");
      if (encoding_ != TextEncoding::kUtf8) {
        return absl::DataLossError(
            fmt::format("{}:{}: a NUL character; the file may be binary or of another encoding",
                        stream_->path(), line));
      }
      if (nul != std::string_view::npos && IsUtf8(one.substr(0, nul))) {
        return absl::DataLossError(
            fmt::format("{}:{}: a NUL byte at byte {}{}, which may be binary or UTF-16",
                        stream_->path(), line, offset + nul, of));
      }
      // The first bad byte follows the longest valid prefix.
      size_t sound = 0;
      size_t bad = one.size();
      while (bad - sound > 1) {
        const size_t middle = sound + (bad - sound) / 2;
        const std::string_view start = one.substr(0, middle);
        (IsUtf8(start.substr(0, middle - CutCharacter(start))) ? sound : bad) = middle;
      }
      sound -= CutCharacter(one.substr(0, sound));
      const std::string what =
          fmt::format("{}:{}: not UTF-8 at byte {}{} (found {:#04x})", stream_->path(), line,
                      offset + sound, of, static_cast<unsigned char>(one[sound]));
      if (options_.offers_encodings && LooksLikeWindows1252(one)) {
        return WithRemedy(absl::DataLossError(what + "; it may be Windows-1252"),
                          {"encoding", "windows-1252", "read it as that"});
      }
      if (options_.offers_encodings) {
        return WithRemedy(
            absl::DataLossError(
                what + "; it is damaged, or of another encoding, which iconv -t UTF-8 converts"),
            {"on_error", "skip", "leave out such rows"});
      }
      return absl::DataLossError(what +
                                 "; convert it, for example with iconv -f WINDOWS-1252 -t UTF-8");
    }
    if (one.size() == text.size()) return absl::OkStatus();
    text.remove_prefix(one.size() + 1);
    ++line;
  }
}

bool TextReader::NextLine(Line* line) {
  if (!status_.ok()) return false;
  size_t searched = 0;
  while (true) {
    const std::string_view text = unread();
    const size_t line_break = text.find('\n', searched);
    if (line_break != std::string_view::npos) {
      line->text = text.substr(0, line_break);
      if (line->text.ends_with('\r')) line->text.remove_suffix(1);
      line->number = line_;
      Consume(line_break + 1, 1);
      return true;
    }
    searched = text.size();
    if (!Extend()) break;
  }
  if (!status_.ok() || unread().empty()) return false;
  line->text = unread();
  line->number = line_;
  Consume(line->text.size(), 0);
  return true;
}

}  // namespace shardfeed
