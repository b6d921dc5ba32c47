#include "decode/features/npy_header.h"

#include <charconv>

#include "absl/status/status.h"
#include "base/little_endian.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "\x93NUMPY"sv;

// The first `size` bytes, escaped and quoted.
std::string Quoted(std::string_view text, size_t size) {
  return fmt::format("{:?}{}", text.substr(0, size), text.size() > size ? "..." : "");
}

// Reads the few forms of a Python literal that NumPy writes.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  bool Take(char c) {
    SkipBlanks();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool TakeWord(std::string_view word) {
    SkipBlanks();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  bool TakeString(std::string_view* value) {
    SkipBlanks();
    if (!text_.starts_with('\'') && !text_.starts_with('"')) return false;
    const size_t end = text_.find(text_[0], 1);
    if (end == text_.npos) return false;
    *value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return true;
  }
  bool TakeNumber(uint64_t* value) {
    SkipBlanks();
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), *value);
    if (error != std::errc()) return false;
    text_.remove_prefix(end - text_.data());
    return TakeWord("L") || true;  // Python 2 wrote long integers with an L
  }
  // Takes the text of a list, whatever it contains.
  bool TakeList(std::string_view* value) {
    SkipBlanks();
    int depth = 0;
    for (size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == '[') ++depth;
      if (text_[i] == ']') --depth;
      if (depth > 0) continue;
      *value = text_.substr(0, i + 1);
      text_.remove_prefix(i + 1);
      return i > 0;
    }
    return false;
  }
  bool at_end() {
    SkipBlanks();
    return text_.empty();
  }

 private:
  void SkipBlanks() {
    const size_t n = text_.find_first_not_of(" \t\r\n");
    text_.remove_prefix(n == text_.npos ? text_.size() : n);
  }

  std::string_view text_;
};

bool ParseShape(Literal& literal, std::vector<uint64_t>* shape) {
  if (!literal.Take('(')) return false;
  while (!literal.Take(')')) {
    uint64_t size;
    if (shape->size() == 64 || !literal.TakeNumber(&size)) return false;
    shape->push_back(size);
    if (!literal.Take(',')) return literal.Take(')');
  }
  return true;
}

bool ParseDictionary(std::string_view text, NpyHeader* header) {
  Literal literal(text);
  bool has_descr = false;
  bool has_order = false;
  bool has_shape = false;
  if (!literal.Take('{')) return false;
  while (!literal.Take('}')) {
    std::string_view key;
    std::string_view value;
    if (!literal.TakeString(&key) || !literal.Take(':')) return false;
    if (key == "descr" && !has_descr) {
      if (!literal.TakeString(&value) && !literal.TakeList(&value)) return false;
      header->descr = value;
      has_descr = true;
    } else if (key == "fortran_order" && !has_order) {
      header->fortran_order = literal.TakeWord("True");
      if (!header->fortran_order && !literal.TakeWord("False")) return false;
      has_order = true;
    } else if (key == "shape" && !has_shape) {
      if (!ParseShape(literal, &header->shape)) return false;
      has_shape = true;
    } else {
      return false;
    }
    if (!literal.Take(',')) {
      if (!literal.Take('}')) return false;
      break;
    }
  }
  return literal.at_end() && has_descr && has_order && has_shape;
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view first_bytes) {
  if (!first_bytes.starts_with(kMagic)) {
    return absl::DataLossError(
        fmt::format("not a .npy file: it starts with {}{}", Quoted(first_bytes, 8),
                    first_bytes.starts_with("PK\x03\x04")
                        ? "; an .npz file is an archive of .npy files: unpack it (unzip)"
                        : ""));
  }
  const uint8_t version = first_bytes.size() > 6 ? first_bytes[6] : 0;
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t begin = kMagic.size() + 2 + length_bytes;
  if (first_bytes.size() < begin) return absl::DataLossError("the file ends inside its header");
  if (version < 1 || version > 3) {
    return absl::DataLossError(
        fmt::format("unknown version {} of the .npy format, expected 1 to 3", version));
  }
  const char* const length_at = first_bytes.data() + kMagic.size() + 2;
  const uint64_t length =
      version == 1 ? LoadLittleEndian<uint16_t>(length_at) : LoadLittleEndian<uint32_t>(length_at);
  if (begin + length > kMaxNpyHeaderBytes) {
    return absl::DataLossError(
        fmt::format("a header of {} bytes, which is more than the limit of {}", length,
                    kMaxNpyHeaderBytes - begin));
  }
  if (first_bytes.size() < begin + length) {
    return absl::DataLossError(
        fmt::format("the file ends inside its header of {} bytes", begin + length));
  }
  NpyHeader header;
  const std::string_view text = first_bytes.substr(begin, length);
  if (!ParseDictionary(text, &header)) {
    return absl::DataLossError(
        fmt::format("the header is not what NumPy writes: {}", Quoted(text, 120)));
  }
  header.data_offset = begin + length;
  return header;
}

}  // namespace shardfeed
