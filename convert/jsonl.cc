#include "convert/jsonl.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "convert/excerpt.h"
#include "convert/json_defect.h"
#include "convert/json_schema.h"
#include "convert/text_files.h"
#include "convert/text_reader.h"
#include "fmt/format.h"
#include "simdjson.h"

namespace shardfeed {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

static_assert(TextReader::kPadding >= simdjson::SIMDJSON_PADDING);

// Parses `line`, behind which kPadding bytes can be read. The result lives in the thread's parser,
// until its next call.
simdjson::error_code Parse(std::string_view line, element* root) {
  thread_local simdjson::dom::parser parser;
  if (parser.capacity() < line.size()) {
    // Its own growth is to the size of the line, which would allocate for every longer one.
    const simdjson::error_code error =
        parser.allocate(std::max<size_t>(1 << 16, std::bit_ceil(line.size())));
    if (error != simdjson::SUCCESS) return error;
  }
  return parser.parse(line.data(), line.size(), /*realloc_if_needed=*/false).get(*root);
}

std::string_view TypeText(element_type type) {
  switch (type) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "a boolean";
    case element_type::NULL_VALUE:
      return "null";
    case element_type::INT64:
    case element_type::UINT64:
    case element_type::DOUBLE:
      return "a number";
  }
  return "";
}

constexpr std::string_view kBlanks = " \t\r";

bool IsBlank(std::string_view line) { return line.find_first_not_of(kBlanks) == line.npos; }

// What a file that is JSON, but not JSON lines, needs to hear.
std::string_view HintFor(std::string_view first_line) {
  first_line.remove_prefix(std::min(first_line.find_first_not_of(kBlanks), first_line.size()));
  if (first_line.starts_with('[')) {
    return "; the file starts like one array of objects, but JSON lines have one object on each "
           "line (jq -c '.[]' makes them)";
  }
  if (first_line.starts_with('{') && first_line.find_first_not_of(kBlanks, 1) == first_line.npos) {
    return "; the file starts like an object laid out over several lines, but JSON lines have one "
           "object on each line (jq -c . makes them)";
  }
  return "";
}

class JsonlSource : public Source {
 public:
  explicit JsonlSource(std::vector<std::string> paths)
      : files_(std::move(paths)), schema_(NewSchema()) {}

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return files_.num_bytes(); }
  std::vector<std::string> notes() const override;
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override;

 private:
  JsonSchema NewSchema() const {
    return JsonSchema(
        [this](Place place) { return fmt::format("{}:{}", files_.path(place.file), place.line); });
  }
  absl::Status ScanFile(uint32_t file, TextReader& reader);
  absl::Status ScanLine(uint32_t file, const TextReader::Line& line);

  TextFiles files_;
  JsonSchema schema_;
  std::vector<uint64_t> records_of_file_;
  uint64_t num_records_ = 0;
};

absl::Status JsonlSource::ScanLine(uint32_t file, const TextReader::Line& line) {
  element root;
  const simdjson::error_code error = Parse(line.text, &root);
  if (error != simdjson::SUCCESS) {
    const JsonDefect defect = FindJsonDefect(line.text, simdjson::error_message(error));
    if (defect.column == 0) return files_.ErrorAt(file, line.number, defect.what);
    return absl::DataLossError(fmt::format("{}:{}:{}: invalid JSON: {}", files_.path(file),
                                           line.number, defect.column, defect.what));
  }
  if (root.type() != element_type::OBJECT) {
    return files_.ErrorAt(file, line.number,
                          fmt::format("{} where each line must be a JSON object: {}",
                                      TypeText(root.type()), Excerpt(line.text)));
  }
  absl::Status status = schema_.Add(root.get_object().value_unsafe(), {file, line.number});
  if (status.ok()) return status;
  return files_.ErrorAt(file, line.number, std::string(status.message()));
}

absl::Status JsonlSource::ScanFile(uint32_t file, TextReader& reader) {
  TextReader::Line line;
  uint64_t num_records = 0;
  std::string hint;
  while (reader.NextLine(&line)) {
    if (IsBlank(line.text)) continue;
    if (num_records++ == 0) hint = HintFor(line.text);
    if (absl::Status status = ScanLine(file, line); !status.ok()) {
      return absl::Status(status.code(), std::string(status.message()) + hint);
    }
  }
  if (!reader.status().ok()) return reader.status();
  records_of_file_.push_back(num_records);
  num_records_ += num_records;
  return absl::OkStatus();
}

absl::Status JsonlSource::Scan(std::stop_token stop,
                               const std::function<void(uint64_t bytes)>& progress) {
  schema_ = NewSchema();
  records_of_file_.clear();
  num_records_ = 0;
  if (absl::Status status = files_.Stat(); !status.ok()) return status;
  for (uint32_t file = 0; file < files_.size(); ++file) {
    absl::StatusOr<std::unique_ptr<TextReader>> reader = files_.OpenFirst(file, stop, progress);
    if (!reader.ok()) return reader.status();
    if (absl::Status status = ScanFile(file, **reader); !status.ok()) return status;
  }
  if (num_records_ == 0) return files_.ErrorAt(0, 0, "no records: every line is blank");
  return absl::OkStatus();
}

std::vector<std::string> JsonlSource::notes() const {
  std::vector<std::string> notes;
  for (const std::string& name : schema_.KeysWithoutValue()) {
    notes.push_back(fmt::format("key {} is null everywhere: no record has it", Excerpt(name)));
  }
  return notes;
}

absl::Status JsonlSource::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  for (uint32_t file = 0; file < files_.size(); ++file) {
    absl::StatusOr<std::unique_ptr<TextReader>> reader = files_.OpenAgain(file);
    if (!reader.ok()) return reader.status();
    TextReader::Line line;
    uint64_t num_records = 0;
    while ((*reader)->NextLine(&line)) {
      if (IsBlank(line.text)) continue;
      ++num_records;
      Item item;
      item.bytes = line.text;
      item.file = file;
      item.line = line.number;
      if (absl::Status status = sink(item); !status.ok()) return status;
    }
    if (!(*reader)->status().ok()) return (*reader)->status();
    if (absl::Status status = files_.CheckUnchanged(file); !status.ok()) return status;
    if (num_records != records_of_file_[file]) return files_.Changed(file);
  }
  return absl::OkStatus();
}

absl::Status JsonlSource::Build(const Item& item, ExampleBuilder& builder) const {
  // The parser reads beyond the line's end, and who hands the item over need not know that.
  thread_local std::string padded;
  padded.assign(item.bytes);
  padded.append(TextReader::kPadding, '\0');
  element root;
  if (Parse(std::string_view(padded).substr(0, item.bytes.size()), &root) != simdjson::SUCCESS ||
      root.type() != element_type::OBJECT ||
      !schema_.Build(root.get_object().value_unsafe(), builder).ok()) {
    return files_.Changed(item.file);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeJsonlSource(std::vector<std::string> paths) {
  if (paths.empty()) return absl::InvalidArgumentError("no JSONL files are named");
  return std::make_unique<JsonlSource>(std::move(paths));
}

}  // namespace shardfeed
