#include "convert/input/json_array.h"

#include <algorithm>
#include <array>

#include "base/excerpt.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

enum CharKind : uint8_t { kPlain, kQuote, kOpen, kClose, kComma };

constexpr std::array<uint8_t, 256> MakeKinds() {
  std::array<uint8_t, 256> kinds{};
  kinds['"'] = kQuote;
  kinds['{'] = kinds['['] = kOpen;
  kinds['}'] = kinds[']'] = kClose;
  kinds[','] = kComma;
  return kinds;
}
constexpr std::array<uint8_t, 256> kKinds = MakeKinds();

// Returns the size of the value at the start of `text`: up to its closing bracket or, for a value
// without brackets, up to a comma or a bracket. Returns npos if it does not end in `text`.
size_t ValueSize(std::string_view text) {
  size_t depth = 0;
  size_t at = 0;
  while (at < text.size()) {
    switch (kKinds[static_cast<uint8_t>(text[at])]) {
      case kQuote:
        at = SkipJsonString(text, at);
        if (at == text.npos) return at;
        if (depth == 0) return at;
        continue;
      case kOpen:
        ++depth;
        break;
      case kClose:
        if (depth == 0) return at;
        if (--depth == 0) return at + 1;
        break;
      case kComma:
        if (depth == 0) return at;
        break;
      default:
        break;
    }
    ++at;
  }
  return text.npos;
}

}  // namespace

size_t SkipJsonString(std::string_view text, size_t at) {
  while (true) {
    at = text.find_first_of("\"\\", at + 1);
    if (at == text.npos || text[at] == '"') return at == text.npos ? at : at + 1;
    if (++at == text.size()) return text.npos;
  }
}

char SkipJsonBlanks(TextReader& reader) {
  while (true) {
    const std::string_view unread = reader.unread();
    const size_t n = std::min(unread.find_first_not_of(" \t\r\n"), unread.size());
    reader.Consume(n, std::count(unread.begin(), unread.begin() + n, '\n'));
    if (n < unread.size()) return unread[n];
    if (!reader.Extend()) return '\0';
  }
}

bool JsonArray::Fail(std::string_view what) {
  status_ = absl::DataLossError(fmt::format("{}:{}: {}", path_, reader_->line(), what));
  return false;
}

char JsonArray::SkipBlanks() {
  const char next = SkipJsonBlanks(*reader_);
  status_ = reader_->status();
  return next;
}

bool JsonArray::NotArray(char first) {
  const std::string found = Excerpt(reader_->unread().substr(0, 20));
  if (!key_.empty()) {
    return Fail(fmt::format("expected an array of objects at {}, got {}", Excerpt(key_), found));
  }
  if (first == '\0') return Fail("the file is empty; expected an array of objects");
  if (first == '{') {
    return Fail(
        "expected an array of objects, got an object; the kind jsonl reads one object per line, "
        "and jq .KEY takes the array at a key out of an object");
  }
  return Fail(fmt::format("expected an array of objects, got {}", found));
}

bool JsonArray::Next(Element* element) {
  char next = SkipBlanks();
  if (!status_.ok()) return false;
  if (!started_) {
    started_ = true;
    if (next != '[') return NotArray(next);
    reader_->Consume(1, 0);
    next = SkipBlanks();
  } else if (next == ',') {
    reader_->Consume(1, 0);
    next = SkipBlanks();
    if (next == ']') return Fail("expected an element after the comma, got the end of the array");
  } else if (next != ']' && next != '\0') {
    return Fail(fmt::format("expected a comma or the end of the array after an element, got {}",
                            Excerpt(reader_->unread().substr(0, 20))));
  }
  if (!status_.ok()) return false;
  if (next == '\0') return Fail("the file ends inside the array; it may be truncated");
  if (next == ']') {
    reader_->Consume(1, 0);
    if (key_.empty() && SkipBlanks() != '\0') {
      return Fail(fmt::format(
          "expected the end of the file after the array, got {}; a file must hold a single array",
          Excerpt(reader_->unread().substr(0, 20))));
    }
    return false;
  }
  size_t size;
  while ((size = ValueSize(reader_->unread())) == std::string_view::npos) {
    if (reader_->Extend()) continue;
    status_ = reader_->status();
    if (!status_.ok()) return false;
    return Fail("the file ends inside the element that starts here; it may be truncated");
  }
  element->text = reader_->unread().substr(0, size);
  element->line = reader_->line();
  if (size == 0) return Fail("expected an element, got a comma");
  reader_->Consume(size, std::count(element->text.begin(), element->text.end(), '\n'));
  return true;
}

}  // namespace shardfeed
