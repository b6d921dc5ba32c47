#include "convert/sources/tar.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "base/excerpt.h"
#include "base/little_endian.h"
#include "base/utf8.h"
#include "convert/features/column.h"
#include "convert/features/json_schema.h"
#include "convert/input/checked_files.h"
#include "convert/input/json_defect.h"
#include "convert/input/json_document.h"
#include "convert/input/name_list.h"
#include "convert/input/open_file_cache.h"
#include "convert/input/tar_reader.h"
#include "convert/input/whole_file.h"
#include "convert/items/item_list.h"
#include "fmt/format.h"
#include "io/remedy.h"
#include "simdjson.h"
#include "tfrecord/tar_samples.h"

namespace shardfeed {
namespace {

// The feature that has the name of the record.
constexpr std::string_view kKey = "__key__";

// More different endings than this cannot all be suffixes of files.
constexpr size_t kMaxExtensions = 1000;
constexpr std::array<std::string_view, 7> kClassExtensions = {"cls", "cls2",  "class", "count",
                                                              "id",  "index", "inx"};

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != text.npos) {
    text.remove_suffix(1);
  }
  while (!text.empty() && std::string_view(" \t\r\n").find(text.front()) != text.npos) {
    text.remove_prefix(1);
  }
  return text;
}

class TarSource : public Source {
 public:
  TarSource(std::vector<std::string> paths, TarOptions options)
      : files_(std::move(paths)),
        options_(std::move(options)),
        images_(options_.images),
        json_schema_(NewSchema()) {}

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return files_.num_bytes(); }
  std::string InputFingerprint() const override { return files_.InputFingerprint(); }
  std::vector<std::string> notes() const override;
  std::vector<std::string> built_notes() const override { return images_.notes(); }
  void ForgetBuilt() override { images_.Reset(); }
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override;
  absl::Status AppendKey(const Item& item, std::string* key) const override;
  absl::Status VisitContent(
      const Item& item, const std::function<void(std::string_view bytes)>& visit) const override;

 private:
  // What the first pass learns about an ending.
  struct Extension {
    std::string name;
    bool is_class = false;
    bool is_json = false;
    TextColumn column;  // values of a class ending
    uint64_t records = 0;
    uint64_t empty = 0;  // records without a value of a class ending
  };
  struct Part {
    uint32_t extension;
    uint64_t offset;  // offset in the file or, if `content` is kept, in `content`
    uint64_t size;
  };
  // Consecutive members with one key.
  struct Record {
    std::string key;
    uint64_t offset = 0;  // offset of the first header
    std::vector<Part> parts;
    std::string content;
    absl::Status defect;  // the first defect
  };
  // Layout of an item: the sizes of key and parts, the parts, the key and, for a compressed
  // archive, the content.
  static constexpr size_t kItemHead = 8;
  static constexpr size_t kItemPart = 20;
  class ItemView {
   public:
    explicit ItemView(std::string_view bytes);
    Part part(uint32_t i) const;

    uint32_t num_parts;
    std::string_view key;
    std::string_view content;

   private:
    const char* parts_;
  };
  // Callbacks for a pass over one archive.
  struct Pass {
    // Whether Record::content should include the contents of this extension.
    std::function<bool(const Extension&)> wants;
    std::function<absl::StatusOr<uint32_t>(const std::string& extension)> extension_of;
    std::function<absl::Status(const Record&)> sink;
    std::function<void(std::string_view name)> passed_over;
  };

  JsonSchema NewSchema() const {
    return JsonSchema(
        [this](Place place) {
          return fmt::format("{} (record {})", files_.path(place.file), place.line - 1);
        },
        options_.choice);
  }
  absl::StatusOr<uint32_t> AddExtension(uint32_t file, const std::string& name);
  absl::Status ForEachRecord(uint32_t file, TarReader& reader, const Pass& pass) const;
  absl::Status ErrorAt(uint32_t file, const TarMember& member, std::string_view what) const;
  // Fails if reading cannot continue; a defect of the record is stored in it.
  absl::Status AddMember(uint32_t file, const TarMember& member, const TarName& name,
                         TarReader& reader, const Pass& pass, Record& record) const;
  absl::Status ScanRecord(uint32_t file, uint64_t number, const Record& record);
  absl::StatusOr<simdjson::dom::object> ParseMember(uint32_t file, std::string_view key,
                                                    std::string_view json) const;

  // Returns the concatenated contents of the parts, which are valid until the thread's next call.
  absl::StatusOr<std::string_view> ReadContent(uint32_t file, const ItemView& view) const;

  InputFiles files_;
  const TarOptions options_;
  ImageRewriter images_;
  std::vector<Extension> extensions_;
  std::map<std::string, uint32_t, std::less<>> extension_of_name_;
  JsonSchema json_schema_;
  std::vector<uint64_t> records_of_file_;  // includes records that were left out
  std::vector<ItemList> left_out_of_file_;
  std::vector<bool> compressed_;
  uint64_t num_records_ = 0;
  NameList passed_over_;
  mutable FileCache open_;
};

absl::StatusOr<uint32_t> TarSource::AddExtension(uint32_t file, const std::string& name) {
  const auto it = extension_of_name_.find(name);
  if (it != extension_of_name_.end()) return it->second;
  if (!IsUtf8(name)) {
    return files_.Error(file, fmt::format("the ending {} is not UTF-8, so it cannot name a feature",
                                          Excerpt(name)));
  }
  if (extensions_.size() == kMaxExtensions) {
    return files_.Error(
        file,
        fmt::format("more than {} different endings, the last of them {}; an ending begins at "
                    "the first dot of a name, so there must be no dot before it",
                    kMaxExtensions, Excerpt(name)));
  }
  if (name == kKey) {
    return files_.Error(file, fmt::format("a member ends with .{}, but this feature is the name of "
                                          "the record; rename the member",
                                          kKey));
  }
  const auto number = static_cast<uint32_t>(extensions_.size());
  const bool is_class =
      std::find(kClassExtensions.begin(), kClassExtensions.end(), name) != kClassExtensions.end();
  const bool is_json = options_.parse_json && name == "json";
  extensions_.push_back({name, is_class, is_json, TextColumn(name)});
  extension_of_name_.emplace(name, number);
  return number;
}

absl::Status TarSource::ErrorAt(uint32_t file, const TarMember& member,
                                std::string_view what) const {
  return files_.Error(
      file, fmt::format("{} at byte {} {}", Excerpt(member.name), member.header_offset, what));
}

absl::Status TarSource::AddMember(uint32_t file, const TarMember& member, const TarName& name,
                                  TarReader& reader, const Pass& pass, Record& record) const {
  absl::StatusOr<uint32_t> number = pass.extension_of(name.extension);
  if (!number.ok()) return number.status();
  uint64_t total = member.size;
  for (const Part& part : record.parts) {
    total += part.size;
    if (part.extension != *number) continue;
    record.defect = ErrorAt(file, member, "appears twice");
    return absl::OkStatus();
  }
  if (total > kMaxValueBytes) {
    record.defect = files_.Error(
        file, fmt::format("the record {} at byte {} has {} bytes, but a record holds at most 2 GiB",
                          Excerpt(record.key), record.offset, total));
    return absl::OkStatus();
  }
  Part part{*number, member.offset, member.size};
  if (pass.wants(extensions_[*number])) {
    part.offset = record.content.size();
    for (uint64_t left = member.size; left > 0;) {
      absl::StatusOr<std::string_view> bytes = reader.Read(std::min<uint64_t>(left, 256 << 10));
      if (!bytes.ok()) return bytes.status();
      record.content += *bytes;
      left -= bytes->size();
    }
  }
  record.parts.push_back(part);
  return absl::OkStatus();
}

absl::Status TarSource::ForEachRecord(uint32_t file, TarReader& reader, const Pass& pass) const {
  // Stores hashes instead of keys: 1 in 400,000 archives of ten million records would be refused
  // without reason.
  absl::btree_set<uint64_t> keys;
  std::optional<Record> record;
  TarMember member;
  while (true) {
    absl::StatusOr<bool> more = reader.Next(&member);
    if (!more.ok()) return more.status();
    std::optional<TarName> name;
    absl::Status defect;
    if (*more) {
      const std::string wrong = WrongTarMember(member);
      if (member.kind == TarMember::Kind::kFolder && wrong.empty()) continue;
      if (!wrong.empty()) defect = ErrorAt(file, member, wrong);
      name = SplitTarName(member.name);
      if (!name && defect.ok()) {
        pass.passed_over(member.name);
        continue;
      }
    }
    if (record && (!name || name->key != record->key)) {
      if (absl::Status status = pass.sink(*record); !status.ok()) return status;
      record.reset();
    }
    if (!*more) return absl::OkStatus();
    if (!record) {
      record.emplace();
      record->key = name ? name->key : member.name;
      record->offset = member.header_offset;
      if (defect.ok() && !keys.insert(std::hash<std::string_view>()(record->key)).second) {
        defect = ErrorAt(file, member,
                         "is not next to the other files of its record; sort the archive "
                         "(tar --sort=name)");
      }
    }
    if (record->defect.ok()) record->defect = defect;
    if (!record->defect.ok()) continue;
    absl::Status status = AddMember(file, member, *name, reader, pass, *record);
    if (!status.ok()) return status;
  }
}

absl::StatusOr<simdjson::dom::object> TarSource::ParseMember(uint32_t file, std::string_view key,
                                                             std::string_view json) const {
  // Wrap the text, so that the schema names its keys "json.KEY".
  thread_local std::string wrapped;
  json = WithoutByteOrderMark(json);
  wrapped = "{\"json\":";
  wrapped += json;
  wrapped += '}';
  const size_t size = wrapped.size();
  wrapped.append(kJsonPadding, '\0');
  simdjson::dom::element root;
  simdjson::dom::object object;
  const simdjson::error_code error =
      ParseJson(std::string_view(wrapped).substr(0, size), &root, json_schema_.digits());
  // With more than one key, the text itself closed the wrapping object.
  if (error == simdjson::SUCCESS && root.get(object) == simdjson::SUCCESS && object.size() == 1) {
    return object;
  }
  const JsonDefect defect = FindJsonDefect(json, simdjson::error_message(error));
  return files_.Error(
      file, fmt::format("the JSON of {}: {}{}", Excerpt(key),
                        defect.column > 0 ? fmt::format("byte {}: ", defect.column) : std::string(),
                        defect.what));
}

absl::Status TarSource::ScanRecord(uint32_t file, uint64_t number, const Record& record) {
  if (!record.defect.ok()) return record.defect;
  const auto content_of = [&record](const Part& part) {
    return std::string_view(record.content).substr(part.offset, part.size);
  };
  for (const Part& part : record.parts) {
    if (!extensions_[part.extension].is_json) continue;
    absl::StatusOr<simdjson::dom::object> object = ParseMember(file, record.key, content_of(part));
    if (!object.ok()) return object.status();
    absl::Status status = json_schema_.Add(*object, {file, number});
    if (!status.ok()) {
      return WithMessage(
          status, fmt::format("{}: the JSON of {} at byte {}: {}", files_.path(file),
                              Excerpt(record.key), record.offset, std::string(status.message())));
    }
  }
  for (const Part& part : record.parts) {
    Extension& extension = extensions_[part.extension];
    ++extension.records;
    if (!extension.is_class) continue;
    const std::string_view value = Trimmed(content_of(part));
    extension.column.Add(value, {file, number});
    if (value.empty()) ++extension.empty;
  }
  return absl::OkStatus();
}

absl::Status TarSource::Scan(std::stop_token stop,
                             const std::function<void(uint64_t bytes)>& progress) {
  extensions_.clear();
  extension_of_name_.clear();
  json_schema_ = NewSchema();
  records_of_file_.clear();
  left_out_of_file_.clear();
  compressed_.clear();
  num_records_ = 0;
  passed_over_ = NameList();
  if (absl::Status status = files_.Stat(); !status.ok()) return status;
  for (uint32_t file = 0; file < files_.size(); ++file) {
    absl::StatusOr<std::unique_ptr<BinaryReader>> opened = BinaryReader::Open(
        files_.path(file), [&, before = files_.bytes_before(file)](uint64_t offset) {
          if (progress) progress(before + offset);
          return stop.stop_requested() ? absl::CancelledError("interrupted") : absl::OkStatus();
        });
    if (!opened.ok()) return opened.status();
    TarReader reader(*std::move(opened), files_.path(file));
    compressed_.push_back(reader.compressed());
    uint64_t num_records = 0;
    Pass pass;
    pass.wants = [](const Extension& e) { return e.is_class || e.is_json; };
    pass.extension_of = [&](const std::string& name) { return AddExtension(file, name); };
    ItemList& left_out = left_out_of_file_.emplace_back();
    pass.sink = [&](const Record& record) {
      absl::Status status = ScanRecord(file, ++num_records, record);
      if (status.ok() || !absl::IsDataLoss(status) || !LeaveOut(status)) return status;
      left_out.Add(num_records - 1);
      return absl::OkStatus();
    };
    pass.passed_over = [&](std::string_view name) { passed_over_.Add(name); };
    absl::Status status = ForEachRecord(file, reader, pass);
    // Keep the records before the end of a truncated archive.
    if (!status.ok() && !(absl::IsDataLoss(status) && LeaveOut(status))) return status;
    records_of_file_.push_back(num_records);
    num_records_ += num_records - left_out.size();
  }
  for (const Extension& extension : extensions_) {
    if (extension.is_json || !json_schema_.HasFeature(extension.name)) continue;
    return files_.Error(
        0, fmt::format("the members that end with .{} and a key of the JSON both become the "
                       "feature {}; leave out the key, or rename the members",
                       extension.name, Excerpt(extension.name)));
  }
  if (num_records_ == 0) {
    if (absl::Status broken = CheckNotAllLeftOut(); !broken.ok()) return broken;
    return files_.Error(
        0, fmt::format("no records{}{}: the archive contains no files with a dot in "
                       "their names",
                       passed_over_.count() > 0 ? ", only " : "", passed_over_.names()));
  }
  return absl::OkStatus();
}

std::vector<std::string> TarSource::notes() const {
  std::vector<std::string> notes;
  passed_over_.AppendNote("skipped", "member", "members", "with hidden names or without an ending",
                          &notes);
  for (const Extension& extension : extensions_) {
    if (extension.records < num_records_) {
      notes.push_back(fmt::format("{} of {} records have no .{}", num_records_ - extension.records,
                                  num_records_, extension.name));
    }
    if (!extension.is_class) continue;
    const TextColumn& column = extension.column;
    const auto first = [this](const Cells& cells) {
      return fmt::format("{} in record {} of {}", Excerpt(cells.first), cells.place.line - 1,
                         files_.path(cells.place.file));
    };
    if (column.texts().count > 0 && column.num_numbers() > 0) {
      notes.push_back(fmt::format(
          "{} is bytes because of {}{}; {} of its values {}", extension.name, first(column.texts()),
          column.texts().count == 1 ? ""
                                    : fmt::format(" and {} other{}", column.texts().count - 1,
                                                  column.texts().count == 2 ? "" : "s"),
          column.num_numbers(), column.num_numbers() == 1 ? "is a number" : "are numbers"));
    }
    if (column.kind() == ColumnKind::kFloat && column.lossy().count > 0) {
      notes.push_back(NoteOfLossyFloats(extension.name, column.lossy(), first(column.lossy())));
    }
    if (extension.empty > 0 && column.kind() != ColumnKind::kBytes) {
      notes.push_back(fmt::format("{} of {} .{} are empty, so their records lack the feature",
                                  extension.empty, extension.records, extension.name));
    }
  }
  for (std::string& note : json_schema_.Notes()) notes.push_back(std::move(note));
  return notes;
}

absl::Status TarSource::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  std::string bytes;
  for (uint32_t file = 0; file < files_.size(); ++file) {
    absl::StatusOr<std::unique_ptr<BinaryReader>> opened = BinaryReader::Open(files_.path(file));
    if (!opened.ok()) return opened.status();
    TarReader reader(*std::move(opened), files_.path(file));
    if (reader.compressed() != compressed_[file]) return files_.Changed(file);
    uint64_t num_records = 0;
    Pass pass;
    pass.wants = [&](const Extension&) { return reader.compressed(); };
    pass.extension_of = [&](const std::string& name) -> absl::StatusOr<uint32_t> {
      const auto it = extension_of_name_.find(name);
      if (it == extension_of_name_.end()) return files_.Changed(file);
      return it->second;
    };
    absl::Status from_sink;
    ItemList::Pass left_out(left_out_of_file_[file]);
    pass.sink = [&](const Record& record) {
      ++num_records;
      if (left_out.Next()) return absl::OkStatus();
      bytes.clear();
      AppendLittleEndian(static_cast<uint32_t>(record.key.size()), &bytes);
      AppendLittleEndian(static_cast<uint32_t>(record.parts.size()), &bytes);
      for (const Part& part : record.parts) {
        AppendLittleEndian(part.extension, &bytes);
        AppendLittleEndian(part.offset, &bytes);
        AppendLittleEndian(part.size, &bytes);
      }
      bytes += record.key;
      bytes += record.content;
      Item item;
      item.bytes = bytes;
      item.file = file;
      item.line = num_records;
      from_sink = sink(item);
      return from_sink;
    };
    pass.passed_over = [](std::string_view) {};
    absl::Status status = ForEachRecord(file, reader, pass);
    if (!from_sink.ok()) return from_sink;
    // A truncated archive was already truncated in Scan.
    if (!status.ok() && !(skips_defects() && absl::IsDataLoss(status))) return status;
    if (status = files_.CheckUnchanged(file); !status.ok()) return status;
    if (num_records != records_of_file_[file]) return files_.Changed(file);
  }
  return absl::OkStatus();
}

TarSource::ItemView::ItemView(std::string_view bytes)
    : num_parts(LoadLittleEndian<uint32_t>(bytes.data() + 4)), parts_(bytes.data() + kItemHead) {
  const auto key_size = LoadLittleEndian<uint32_t>(bytes.data());
  bytes.remove_prefix(kItemHead + kItemPart * num_parts);
  key = bytes.substr(0, key_size);
  content = bytes.substr(key_size);
}

TarSource::Part TarSource::ItemView::part(uint32_t i) const {
  const char* const from = parts_ + kItemPart * i;
  return {LoadLittleEndian<uint32_t>(from), LoadLittleEndian<uint64_t>(from + 4),
          LoadLittleEndian<uint64_t>(from + 12)};
}

absl::StatusOr<std::string_view> TarSource::ReadContent(uint32_t file, const ItemView& view) const {
  if (compressed_[file]) return view.content;
  thread_local std::string buffer;
  absl::StatusOr<std::shared_ptr<const File>> in = open_.Get(files_.path(file));
  if (!in.ok()) return in.status();
  uint64_t size = 0;
  for (uint32_t i = 0; i < view.num_parts; ++i) size += view.part(i).size;
  // A rare huge record should not hold its memory forever.
  constexpr size_t kKept = size_t{64} << 20;
  if (buffer.size() > kKept && size <= kKept) buffer = std::string();
  if (buffer.size() < size) buffer.resize(size);
  size_t done = 0;
  for (uint32_t i = 0; i < view.num_parts; ++i) {
    const Part part = view.part(i);
    absl::StatusOr<size_t> n =
        (*in)->ReadAt(part.offset, absl::MakeSpan(buffer.data() + done, part.size));
    if (!n.ok()) return n.status();
    if (*n < part.size) return files_.Changed(file);
    done += part.size;
  }
  return std::string_view(buffer).substr(0, size);
}

absl::Status TarSource::AppendKey(const Item& item, std::string* key) const {
  key->append(ItemView(item.bytes).key);
  return absl::OkStatus();
}

absl::Status TarSource::VisitContent(
    const Item& item, const std::function<void(std::string_view bytes)>& visit) const {
  const ItemView view(item.bytes);
  absl::StatusOr<std::string_view> content = ReadContent(item.file, view);
  if (!content.ok()) return content.status();
  // Visit parts in the order of their endings, not of the archive.
  std::map<std::string_view, std::string_view> parts;
  for (uint32_t i = 0; i < view.num_parts; ++i) {
    const Part part = view.part(i);
    parts[extensions_[part.extension].name] = content->substr(0, part.size);
    content->remove_prefix(part.size);
  }
  for (const auto& [name, bytes] : parts) {
    visit(name);
    visit(bytes);
  }
  return absl::OkStatus();
}

absl::Status TarSource::Build(const Item& item, ExampleBuilder& builder) const {
  const ItemView view(item.bytes);
  absl::StatusOr<std::string_view> read = ReadContent(item.file, view);
  if (!read.ok()) return read.status();
  std::string_view content = *read;
  builder.AddBytes(kKey, view.key);
  for (uint32_t i = 0; i < view.num_parts; ++i) {
    const Part part = view.part(i);
    const Extension& extension = extensions_[part.extension];
    const std::string_view value = content.substr(0, part.size);
    content.remove_prefix(part.size);
    if (extension.is_class && extension.column.kind() == ColumnKind::kInt64) {
      const std::optional<int64_t> number = ParseInt64(Trimmed(value));
      if (number) builder.AddInt64(extension.name, *number);
    } else if (extension.is_class && extension.column.kind() == ColumnKind::kFloat) {
      const std::optional<float> number = ParseFloat(Trimmed(value));
      if (number) builder.AddFloat(extension.name, *number);
    } else if (extension.is_json) {
      absl::StatusOr<simdjson::dom::object> object = ParseMember(item.file, view.key, value);
      if (!object.ok() || !json_schema_.Build(*object, builder).ok()) {
        return files_.Changed(item.file);
      }
    } else if (!images_.keeps_all() && value.starts_with(kJpegMagic)) {
      absl::StatusOr<std::string_view> stored = images_.RewriteJpeg(
          fmt::format("{}: {}.{}", files_.path(item.file), view.key, extension.name), value);
      if (!stored.ok()) return stored.status();
      // Copy the image, since a record may have several.
      builder.AddBytes(extension.name, *stored);
    } else {
      builder.AddBorrowedBytes(extension.name, value);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeTarSource(std::vector<std::string> paths,
                                                      TarOptions options) {
  if (paths.empty()) return absl::InvalidArgumentError("expected tar archives, got none");
  return std::make_unique<TarSource>(std::move(paths), std::move(options));
}

}  // namespace shardfeed
