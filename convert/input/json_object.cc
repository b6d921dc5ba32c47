#include "convert/input/json_object.h"

#include <algorithm>

#include "base/excerpt.h"
#include "convert/input/json_array.h"
#include "fmt/format.h"

namespace shardfeed {

bool JsonObject::Fail(std::string_view what) {
  status_ = reader_->status();
  if (status_.ok()) {
    status_ = absl::DataLossError(fmt::format("{}:{}: {}", path_, reader_->line(), what));
  }
  return false;
}

char JsonObject::SkipBlanks() { return SkipJsonBlanks(*reader_); }

bool JsonObject::ReadKey(char next) {
  if (next == '\0') return Fail("the file ends inside the object; it may be truncated");
  if (next != '"') {
    return Fail(
        fmt::format("expected a key in quotes, got {}", Excerpt(reader_->unread().substr(0, 20))));
  }
  size_t size;
  while ((size = SkipJsonString(reader_->unread(), 0)) == std::string_view::npos) {
    if (!reader_->Extend()) return Fail("the file ends inside the key that starts here");
  }
  const std::string_view text = reader_->unread().substr(0, size);
  key_ = text.substr(1, size - 2);
  reader_->Consume(size, std::count(text.begin(), text.end(), '\n'));
  if (SkipBlanks() != ':') return Fail(fmt::format("expected a colon after {}", Excerpt(key_)));
  reader_->Consume(1, 0);
  if (SkipBlanks() == '\0') return Fail("the file ends inside the object; it may be truncated");
  return true;
}

bool JsonObject::Next() {
  if (!status_.ok()) return false;
  char next = SkipBlanks();
  if (!started_) {
    started_ = true;
    if (next != '{') {
      return Fail(next == '\0' ? "the file is empty; expected an object"
                               : fmt::format("expected an object, got {}",
                                             Excerpt(reader_->unread().substr(0, 20))));
    }
    reader_->Consume(1, 0);
    next = SkipBlanks();
    if (next != '}') return ReadKey(next);
  } else if (next == ',') {
    reader_->Consume(1, 0);
    return ReadKey(SkipBlanks());
  } else if (next != '}') {
    return Fail(next == '\0'
                    ? "the file ends inside the object; it may be truncated"
                    : fmt::format("expected a comma or the end of the object after the "
                                  "value of {}, got {}",
                                  Excerpt(key_), Excerpt(reader_->unread().substr(0, 20))));
  }
  reader_->Consume(1, 0);
  if (SkipBlanks() != '\0') {
    return Fail(fmt::format("expected the end of the file after the object, got {}",
                            Excerpt(reader_->unread().substr(0, 20))));
  }
  status_ = reader_->status();
  return false;
}

bool JsonObject::SkipValue() {
  size_t depth = 0;
  bool in_string = false;
  bool escaped = false;
  while (true) {
    const std::string_view text = reader_->unread();
    size_t at = 0;
    size_t lines = 0;
    for (; at < text.size(); ++at) {
      const char c = text[at];
      lines += c == '\n';
      if (in_string) {
        if (escaped) {
          escaped = false;
        } else if (c == '\\') {
          escaped = true;
        } else if (c == '"') {
          in_string = false;
        }
        continue;
      }
      if (c == '"') {
        in_string = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']' || c == ',') {
        // A value without brackets ends before what follows it.
        if (depth == 0) break;
        if (c != ',') --depth;
      }
    }
    reader_->Consume(at, lines);
    if (at < text.size()) return true;
    if (!reader_->Extend()) return Fail("the file ends inside the object; it may be truncated");
  }
}

}  // namespace shardfeed
