#include "convert/sources/json.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/excerpt.h"
#include "convert/features/json_schema.h"
#include "convert/input/json_array.h"
#include "convert/input/json_document.h"
#include "convert/input/text_inputs.h"
#include "convert/input/text_reader.h"
#include "convert/items/item_list.h"
#include "convert/items/split_names.h"
#include "fmt/format.h"
#include "io/remedy.h"

namespace shardfeed {
namespace {

static_assert(TextReader::kPadding >= kJsonPadding);

constexpr std::string_view kBlanks = " \t\r";

bool IsBlank(std::string_view line) { return line.find_first_not_of(kBlanks) == line.npos; }

// Returns a hint for a file that is JSON but not JSON lines.
std::string_view HintFor(std::string_view first_line) {
  first_line.remove_prefix(std::min(first_line.find_first_not_of(kBlanks), first_line.size()));
  if (first_line.starts_with('[')) {
    return "; the file starts like an array of objects, which the kind json reads; JSON lines have "
           "one object on each line";
  }
  if (first_line.starts_with('{') && first_line.find_first_not_of(kBlanks, 1) == first_line.npos) {
    return "; the file starts like an object that spans several lines, but JSON lines have one "
           "object on each line (jq -c . writes them)";
  }
  return "";
}

// Looks up a dotted key. Returns false if the object does not have it.
bool FindValue(simdjson::dom::object fields, std::string_view path, simdjson::dom::element* value) {
  // A key may contain dots itself, so try the whole path first.
  while (fields.at_key(path).get(*value) != simdjson::SUCCESS) {
    const size_t dot = path.find('.');
    if (dot == path.npos || fields.at_key(path.substr(0, dot)).get(*value) != simdjson::SUCCESS ||
        value->get(fields) != simdjson::SUCCESS) {
      return false;
    }
    path.remove_prefix(dot + 1);
  }
  return true;
}

// The name of the split at a dotted key: text, an integer, true or false; empty without a value.
absl::StatusOr<std::string> SplitAt(simdjson::dom::object object, const std::string& key) {
  simdjson::dom::element value;
  if (!FindValue(object, key, &value) || value.is_null()) return std::string();
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) return std::string(text);
  if (value.is_int64() || value.is_bool()) return JsonText(value);
  // As without a schema of bytes.
  if (value.is_double() && IsJsonMinusZero(value)) return std::string("0");
  const std::string written = JsonText(value);
  return absl::DataLossError(
      fmt::format("{}: expected text or an integer that names the split, "
                  "got {}",
                  Excerpt(key), Excerpt(written)));
}

class JsonSource : public Source {
 public:
  JsonSource(std::vector<std::string> paths, JsonLayout layout, JsonOptions options)
      : files_(std::move(paths), options.max_object_bytes),
        layout_(layout),
        options_(std::move(options)),
        schema_(NewSchema()) {}

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return files_.num_bytes(); }
  std::string InputFingerprint() const override { return files_.InputFingerprint(); }
  std::vector<std::string> notes() const override { return schema_.Notes(); }
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override;
  absl::Status AppendKey(const Item& item, std::string* key) const override;
  FeatureTypes types() const override { return schema_.TypesWithoutValues(); }
  bool names_splits() const override { return !options_.split_key.empty(); }
  std::vector<SplitCount> splits() const override { return splits_.splits(); }
  absl::StatusOr<size_t> SplitOf(const Item& item) const override;

 private:
  JsonSchema NewSchema() const {
    return JsonSchema(
        [this](Place place) { return fmt::format("{}:{}", files_.path(place.file), place.line); },
        options_.choice, options_.dates);
  }
  // Calls `sink` with each text of a file that should be an object, followed by kJsonPadding bytes.
  absl::Status ForEachText(uint32_t file, TextReader& reader,
                           const std::function<absl::Status(const Item&)>& sink) const;
  absl::Status ScanObject(const Item& item);
  // Parses an object that Scan has seen. It is memory of the calling thread's parser, valid until
  // the thread's next call.
  absl::StatusOr<simdjson::dom::object> Parse(const Item& item, JsonDigits digits) const;

  TextFiles files_;
  const JsonLayout layout_;
  const JsonOptions options_;
  JsonSchema schema_;
  std::vector<uint64_t> texts_of_file_;
  std::vector<ItemList> left_out_of_file_;
  SplitNames splits_{""};
  uint64_t num_records_ = 0;
};

absl::Status JsonSource::ForEachText(uint32_t file, TextReader& reader,
                                     const std::function<absl::Status(const Item&)>& sink) const {
  Item item;
  item.file = file;
  if (layout_ == JsonLayout::kArray) {
    JsonArray array(&reader, files_.path(file));
    JsonArray::Element element;
    while (array.Next(&element)) {
      item.bytes = element.text;
      item.line = element.line;
      if (absl::Status status = sink(item); !status.ok()) return status;
    }
    return array.status();
  }
  TextReader::Line line;
  while (reader.NextLine(&line)) {
    if (IsBlank(line.text)) continue;
    item.bytes = line.text;
    item.line = line.number;
    if (absl::Status status = sink(item); !status.ok()) return status;
  }
  return reader.status();
}

absl::Status JsonSource::ScanObject(const Item& item) {
  const bool lines = layout_ == JsonLayout::kLines;
  absl::StatusOr<simdjson::dom::object> object = ParseJsonObject(
      item.bytes, files_.path(item.file), item.line,
      lines ? "each line must be a JSON object" : "each element of the array must be an object",
      schema_.digits());
  if (!object.ok()) return object.status();
  absl::Status status;
  std::string split;
  if (names_splits()) {
    absl::StatusOr<std::string> found = SplitAt(*object, options_.split_key);
    status = found.ok() ? splits_.Check(*found) : found.status();
    if (status.ok()) split = *std::move(found);
  }
  if (status.ok()) status = schema_.Add(*object, {item.file, item.line});
  if (status.ok() && names_splits()) status = splits_.Add(split);
  if (status.ok()) return status;
  const absl::Status placed = files_.ErrorAt(item.file, item.line, std::string(status.message()));
  return WithMessage(status, std::string(placed.message()));
}

absl::Status JsonSource::Scan(std::stop_token stop,
                              const std::function<void(uint64_t bytes)>& progress) {
  schema_ = NewSchema();
  texts_of_file_.clear();
  left_out_of_file_.clear();
  splits_ = SplitNames(options_.split_key);
  num_records_ = 0;
  if (absl::Status status = files_.Stat(); !status.ok()) return status;
  for (uint32_t file = 0; file < files_.size(); ++file) {
    absl::StatusOr<std::unique_ptr<TextReader>> reader =
        files_.OpenFirst(file, !skips_defects(), stop, progress);
    if (!reader.ok()) return reader.status();
    uint64_t num_texts = 0;
    std::string hint;
    ItemList& left_out = left_out_of_file_.emplace_back();
    absl::Status status = ForEachText(file, **reader, [&](const Item& item) -> absl::Status {
      if (num_texts++ == 0 && layout_ == JsonLayout::kLines) hint = HintFor(item.bytes);
      absl::Status scanned = ScanObject(item);
      if (!scanned.ok() && LeaveOut(scanned)) {
        left_out.Add(num_texts - 1);
        return absl::OkStatus();
      }
      if (scanned.ok() || hint.empty()) return scanned;
      return WithMessage(scanned, std::string(scanned.message()) + hint);
    });
    if (!status.ok() && !(absl::IsDataLoss(status) && LeaveOut(status))) return status;
    texts_of_file_.push_back(num_texts);
    num_records_ += num_texts - left_out.size();
  }
  if (num_records_ == 0) {
    if (absl::Status broken = CheckNotAllLeftOut(); !broken.ok()) return broken;
    return files_.Error(0, layout_ == JsonLayout::kLines ? "no records: every line is blank"
                                                         : "no records: the array is empty");
  }
  absl::Status columns = schema_.CheckColumns();
  if (columns.ok()) return columns;
  return absl::Status(columns.code(),
                      fmt::format("{}: {}", files_.path(0), std::string(columns.message())));
}

absl::Status JsonSource::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  for (uint32_t file = 0; file < files_.size(); ++file) {
    absl::StatusOr<std::unique_ptr<TextReader>> reader = files_.OpenAgain(file);
    if (!reader.ok()) return reader.status();
    uint64_t num_texts = 0;
    absl::Status from_sink;
    ItemList::Pass left_out(left_out_of_file_[file]);
    absl::Status status = ForEachText(file, **reader, [&](const Item& item) {
      ++num_texts;
      if (!left_out.Next()) from_sink = sink(item);
      return from_sink;
    });
    if (!from_sink.ok()) return from_sink;
    // A truncated array was already truncated in Scan.
    if (!status.ok() && !(skips_defects() && absl::IsDataLoss(status))) return status;
    if (absl::Status unchanged = files_.CheckUnchanged(file); !unchanged.ok()) return unchanged;
    if (num_texts != texts_of_file_[file]) return files_.Changed(file);
  }
  return absl::OkStatus();
}

absl::StatusOr<simdjson::dom::object> JsonSource::Parse(const Item& item, JsonDigits digits) const {
  // The parser reads beyond the end of the text, and items from the caller may lack the padding.
  thread_local std::string padded;
  padded.assign(item.bytes);
  padded.append(kJsonPadding, '\0');
  simdjson::dom::element root;
  simdjson::dom::object object;
  if (ParseJson(std::string_view(padded).substr(0, item.bytes.size()), &root, digits) !=
          simdjson::SUCCESS ||
      root.get(object) != simdjson::SUCCESS) {
    return files_.Changed(item.file);
  }
  return object;
}

absl::Status JsonSource::AppendKey(const Item& item, std::string* key) const {
  if (options_.key.empty()) {
    key->append(item.bytes);
    return absl::OkStatus();
  }
  absl::StatusOr<simdjson::dom::object> object = Parse(item, JsonDigits::kOfDoubles);
  if (!object.ok()) return object.status();
  simdjson::dom::element value;
  if (FindValue(*object, options_.key, &value)) key->append(JsonText(value));
  return absl::OkStatus();
}

absl::StatusOr<size_t> JsonSource::SplitOf(const Item& item) const {
  absl::StatusOr<simdjson::dom::object> object = Parse(item, schema_.digits());
  if (!object.ok()) return object.status();
  const absl::StatusOr<std::string> name = SplitAt(*object, options_.split_key);
  if (!name.ok()) return files_.Changed(item.file);
  if (const std::optional<size_t> split = splits_.Find(*name)) return *split;
  return files_.Changed(item.file);
}

absl::Status JsonSource::Build(const Item& item, ExampleBuilder& builder) const {
  absl::StatusOr<simdjson::dom::object> object = Parse(item, schema_.digits());
  if (!object.ok()) return object.status();
  return schema_.Build(*object, builder).ok() ? absl::OkStatus() : files_.Changed(item.file);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeJsonSource(std::vector<std::string> paths,
                                                       JsonLayout layout, JsonOptions options) {
  if (paths.empty()) return absl::InvalidArgumentError("expected JSON files, got none");
  return std::make_unique<JsonSource>(std::move(paths), layout, std::move(options));
}

}  // namespace shardfeed
