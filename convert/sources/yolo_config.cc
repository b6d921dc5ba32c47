#include "convert/sources/yolo_config.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/excerpt.h"
#include "base/utf8.h"
#include "convert/features/column.h"
#include "convert/input/text_reader.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

constexpr std::array<std::string_view, 7> kKeys = {"path",  "train", "val",      "test",
                                                   "names", "nc",    "kpt_shape"};
// Characters that begin what this reader does not know: anchors, tags, block texts and so on.
constexpr std::string_view kUnknown = "&*!|>%@`{}[],?";

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \r";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  text.remove_suffix(text.size() - 1 - std::min(text.find_last_not_of(kBlanks), text.size() - 1));
  return text;
}

// A key with its value, or an item of a list, whose key is empty.
struct Entry {
  std::string key;
  std::string value;
};
struct Value {
  size_t line = 0;  // 1-based
  bool is_scalar = false;
  std::vector<Entry> entries;  // a scalar is the value of the only one
};

class Parser {
 public:
  Parser(std::string_view text, const std::string& path) : path_(path) {
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      lines_.push_back(WithoutComment(line));
      text.remove_prefix(std::min(line.size() + 1, text.size()));
    }
  }

  absl::StatusOr<YoloConfig> Parse();

 private:
  static std::string_view WithoutComment(std::string_view line);
  absl::Status ErrorAt(size_t line, std::string_view what) const {
    return absl::DataLossError(fmt::format("{}:{}: {}", path_, line, what));
  }
  absl::Status Unknown(size_t line, std::string_view text) const {
    return ErrorAt(line, fmt::format("{} is not in the form of YAML that is read here: plain or "
                                     "quoted values, and lists or numbered maps of them",
                                     Excerpt(text)));
  }
  static size_t Indent(std::string_view line) {
    return std::min(line.find_first_not_of(' '), line.size());
  }
  static bool IsBlank(std::string_view line) { return Trimmed(line).empty(); }
  static bool IsItem(std::string_view line) {
    line.remove_prefix(Indent(line));
    return line == "-" || line.starts_with("- ");
  }

  // Reads a scalar from the beginning of `text` up to one of `ends`, and removes it.
  absl::StatusOr<std::string> TakeScalar(size_t line, std::string_view* text,
                                         std::string_view ends) const;
  absl::StatusOr<std::string> WholeScalar(size_t line, std::string_view text) const;
  absl::Status ReadFlow(std::string_view first, Value* value);
  absl::Status ReadBlock(Value* value);
  absl::StatusOr<Value> ReadValue(std::string_view rest);
  absl::Status Set(const std::string& key, const Value& value, YoloConfig* config);
  absl::Status SetNames(const Value& value, YoloConfig* config) const;

  const std::string& path_;
  std::vector<std::string_view> lines_;
  size_t next_ = 0;  // index of the next line
  std::optional<int64_t> num_classes_;
};

std::string_view Parser::WithoutComment(std::string_view line) {
  char quote = '\0';
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != '\0') {
      if (c == '\\' && quote == '"') ++i;
      if (c == quote) quote = '\0';
    } else if ((c == '"' || c == '\'') &&
               (i == 0 || std::string_view(" [{,:").find(line[i - 1]) != std::string_view::npos)) {
      quote = c;
    } else if (c == '#' && (i == 0 || line[i - 1] == ' ')) {
      return line.substr(0, i);
    }
  }
  return line;
}

absl::StatusOr<std::string> Parser::TakeScalar(size_t line, std::string_view* text,
                                               std::string_view ends) const {
  *text = Trimmed(*text);
  const std::string_view whole = *text;
  std::string scalar;
  if (whole.starts_with('"') || whole.starts_with('\'')) {
    const char quote = whole.front();
    size_t i = 1;
    for (; i < whole.size(); ++i) {
      char c = whole[i];
      if (c == quote) {
        // A quote in single quotes is doubled.
        if (quote == '"' || i + 1 == whole.size() || whole[i + 1] != quote) break;
        ++i;
      } else if (c == '\\' && quote == '"') {
        if (++i == whole.size() || (whole[i] != '"' && whole[i] != '\\')) {
          return Unknown(line, whole);
        }
        c = whole[i];
      }
      scalar += c;
    }
    if (i >= whole.size()) return ErrorAt(line, fmt::format("{} is not closed", Excerpt(whole)));
    *text = Trimmed(whole.substr(i + 1));
    if (!text->empty() && ends.find(text->front()) == ends.npos) return Unknown(line, whole);
    return scalar;
  }
  if (!whole.empty() && ends.find(whole.front()) == ends.npos &&
      (kUnknown.find(whole.front()) != kUnknown.npos || IsItem(whole))) {
    return Unknown(line, whole);
  }
  const size_t end = std::min(whole.find_first_of(ends), whole.size());
  scalar = Trimmed(whole.substr(0, end));
  *text = whole.substr(end);
  return scalar;
}

absl::StatusOr<std::string> Parser::WholeScalar(size_t line, std::string_view text) const {
  return TakeScalar(line, &text, "");
}

// A list or map in brackets, perhaps of several lines.
absl::Status Parser::ReadFlow(std::string_view first, Value* value) {
  const bool is_map = first.front() == '{';
  const char close = is_map ? '}' : ']';
  const std::string_view ends = is_map ? ":,}" : ",]";
  std::string_view rest = first.substr(1);
  while (true) {
    rest = Trimmed(rest);
    while (rest.empty()) {
      if (next_ == lines_.size()) {
        return ErrorAt(value->line, fmt::format("the \"{}\" is never closed", first.front()));
      }
      rest = Trimmed(lines_[next_++]);
    }
    if (rest.front() == close) break;
    Entry& entry = value->entries.emplace_back();
    absl::StatusOr<std::string> scalar = TakeScalar(next_, &rest, ends);
    if (!scalar.ok()) return scalar.status();
    if (is_map) {
      if (!rest.starts_with(':')) return Unknown(next_, first);
      entry.key = *std::move(scalar);
      rest.remove_prefix(1);
      scalar = TakeScalar(next_, &rest, ",}");
      if (!scalar.ok()) return scalar.status();
    }
    entry.value = *std::move(scalar);
    while (rest.empty() && next_ < lines_.size()) rest = Trimmed(lines_[next_++]);
    if (rest.starts_with(',')) {
      rest.remove_prefix(1);
    } else if (!rest.empty() && rest.front() != close) {
      return ErrorAt(next_, fmt::format("expected \",\" or \"{}\", got {}", close, Excerpt(rest)));
    }
  }
  if (!Trimmed(rest.substr(1)).empty()) return Unknown(next_, rest);
  return absl::OkStatus();
}

// Lines below a key: "- item", or "key: value" with an indent.
absl::Status Parser::ReadBlock(Value* value) {
  std::optional<size_t> indent;
  std::optional<bool> is_list;
  for (; next_ < lines_.size(); ++next_) {
    const std::string_view line = lines_[next_];
    if (IsBlank(line)) continue;
    if (line.find('\t') < line.find_first_not_of(" \t")) {
      return ErrorAt(next_ + 1, "a tab in the indent, which YAML does not allow");
    }
    const size_t own = Indent(line);
    if (own == 0 && !IsItem(line)) break;
    if (indent.value_or(own) != own || is_list.value_or(IsItem(line)) != IsItem(line)) {
      return Unknown(next_ + 1, line);
    }
    indent = own;
    is_list = IsItem(line);
    std::string_view rest = line.substr(own + (*is_list ? 1 : 0));
    Entry& entry = value->entries.emplace_back();
    if (!*is_list) {
      absl::StatusOr<std::string> key = TakeScalar(next_ + 1, &rest, ":");
      if (!key.ok()) return key.status();
      if (!rest.starts_with(':')) return Unknown(next_ + 1, line);
      entry.key = *std::move(key);
      rest.remove_prefix(1);
    }
    absl::StatusOr<std::string> scalar = WholeScalar(next_ + 1, rest);
    if (!scalar.ok()) return scalar.status();
    entry.value = *std::move(scalar);
  }
  return absl::OkStatus();
}

// `rest` is what follows the colon in the line before the next one.
absl::StatusOr<Value> Parser::ReadValue(std::string_view rest) {
  Value value;
  value.line = next_;
  rest = Trimmed(rest);
  absl::Status status;
  if (rest.starts_with('[') || rest.starts_with('{')) {
    status = ReadFlow(rest, &value);
  } else if (rest.empty()) {
    status = ReadBlock(&value);
  } else {
    absl::StatusOr<std::string> scalar = WholeScalar(next_, rest);
    if (!scalar.ok()) return scalar.status();
    const size_t following = next_;
    while (next_ < lines_.size() && IsBlank(lines_[next_])) ++next_;
    if (next_ < lines_.size() && Indent(lines_[next_]) > 0) {
      return ErrorAt(next_ + 1, "this continues the value above it; write values in one line");
    }
    next_ = following;
    value.is_scalar = true;
    value.entries.push_back({"", *std::move(scalar)});
  }
  if (!status.ok()) return status;
  return value;
}

absl::Status Parser::SetNames(const Value& value, YoloConfig* config) const {
  if (value.is_scalar) {
    return ErrorAt(value.line, "names must be a list, or a map with the keys 0, 1 and so on");
  }
  config->names.resize(value.entries.size());
  std::set<int64_t> seen;
  int64_t number = 0;
  for (const Entry& entry : value.entries) {
    if (!entry.key.empty()) {
      const std::optional<int64_t> key = ParseInt64(entry.key);
      if (!key || *key < 0 || *key >= static_cast<int64_t>(config->names.size())) {
        return ErrorAt(value.line,
                       fmt::format("the keys of names must be 0 to {}, each once, got {}",
                                   config->names.size() - 1, Excerpt(entry.key)));
      }
      number = *key;
    }
    if (!seen.insert(number).second) {
      return ErrorAt(value.line, fmt::format("the class {} is named twice", number));
    }
    if (entry.value.empty()) {
      return ErrorAt(value.line, fmt::format("the name of class {} is empty", number));
    }
    config->names[number++] = entry.value;
  }
  return absl::OkStatus();
}

absl::Status Parser::Set(const std::string& key, const Value& value, YoloConfig* config) {
  if (key == "names") return SetNames(value, config);
  if (key == "kpt_shape") {
    std::vector<int64_t> shape;
    for (const Entry& entry : value.entries) {
      shape.push_back(entry.key.empty() ? ParseInt64(entry.value).value_or(0) : 0);
    }
    if (shape.size() != 2 || shape[0] < 1 || shape[0] > 10'000 || shape[1] < 2 || shape[1] > 3) {
      return ErrorAt(value.line, "kpt_shape must be [number of keypoints, 2 or 3]");
    }
    config->num_keypoints = static_cast<uint32_t>(shape[0]);
    config->keypoint_values = static_cast<uint32_t>(shape[1]);
    return absl::OkStatus();
  }
  if (key == "path" || key == "nc") {
    if (value.entries.empty()) return absl::OkStatus();
    if (!value.is_scalar) return ErrorAt(value.line, fmt::format("{} must be one value", key));
    const std::string& text = value.entries[0].value;
    if (key == "path") {
      config->root = text;
      return absl::OkStatus();
    }
    num_classes_ = ParseInt64(text);
    return num_classes_ ? absl::OkStatus()
                        : ErrorAt(value.line, fmt::format("nc must be a number of classes, got {}",
                                                          Excerpt(text)));
  }
  for (const Entry& entry : value.entries) {
    if (!entry.key.empty() || entry.value.empty()) {
      return ErrorAt(value.line, fmt::format("{} must be a folder, or a list of folders", key));
    }
    config->subsets[key].push_back(entry.value);
  }
  return absl::OkStatus();
}

absl::StatusOr<YoloConfig> Parser::Parse() {
  YoloConfig config;
  std::set<std::string> seen;
  while (next_ < lines_.size()) {
    std::string_view line = lines_[next_++];
    // What is indented belongs to a key that is ignored.
    if (IsBlank(line) || Indent(line) > 0 || IsItem(line) || Trimmed(line) == "---") continue;
    const std::string_view whole = line;
    absl::StatusOr<std::string> key = TakeScalar(next_, &line, ":");
    const bool wanted = key.ok() && std::find(kKeys.begin(), kKeys.end(), *key) != kKeys.end();
    if (!wanted) continue;
    if (!line.starts_with(':')) {
      return ErrorAt(next_, fmt::format("expected \"KEY: VALUE\", got {}", Excerpt(whole)));
    }
    if (!seen.insert(*key).second) return ErrorAt(next_, fmt::format("{} appears twice", *key));
    absl::StatusOr<Value> value = ReadValue(line.substr(1));
    if (!value.ok()) return value.status();
    if (absl::Status status = Set(*key, *value, &config); !status.ok()) return status;
  }
  if (num_classes_ && !config.names.empty() &&
      *num_classes_ != static_cast<int64_t>(config.names.size())) {
    return absl::DataLossError(fmt::format("{}: nc is {}, but there are {} names", path_,
                                           *num_classes_, config.names.size()));
  }
  return config;
}

}  // namespace

absl::StatusOr<YoloConfig> ParseYoloConfig(std::string_view text, const std::string& path) {
  if (!IsText(text)) return absl::DataLossError(fmt::format("{}: not UTF-8 text", path));
  return Parser(WithoutByteOrderMark(text), path).Parse();
}

}  // namespace shardfeed
