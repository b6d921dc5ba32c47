#include "convert/sources/captions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/excerpt.h"
#include "base/utf8.h"
#include "convert/features/image_file.h"
#include "convert/features/json_schema.h"
#include "convert/input/file_tree.h"
#include "convert/input/json_document.h"
#include "convert/input/name_list.h"
#include "convert/input/text_encoding.h"
#include "convert/input/whole_file.h"
#include "convert/items/item_list.h"
#include "fmt/format.h"
#include "io/remedy.h"
#include "simdjson.h"

namespace shardfeed {
namespace {

static_assert(WholeFile::kPadding >= kJsonPadding);

constexpr std::array<std::string_view, 6> kOwnFeatures = {
    "text", "image/encoded", "image/filename", "image/format", "image/height", "image/width"};

// DataLoss: the text is UTF-16 or UTF-32.
absl::Status CheckEncoding(std::string_view path, std::string_view text) {
  const std::string_view wide = FindWideEncoding(text);
  return wide.empty() ? absl::OkStatus() : WideEncodingError(path, wide);
}

// An image and the texts beside it.
struct Pair {
  std::string_view stem;
  std::string_view image;  // name; empty for a text without an image
  uint64_t bytes = 0;
  bool has_text = false;
  bool has_json = false;
  std::string_view second_image;  // another image with the same stem
};

std::string_view StemOf(std::string_view name) { return name.substr(0, name.rfind('.')); }

class CaptionsSource : public Source {
 public:
  CaptionsSource(std::vector<std::string> folders, CaptionsOptions options)
      : tree_(std::move(folders)),
        options_(std::move(options)),
        images_(options_.images),
        schema_(NewSchema()) {}

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return num_bytes_; }
  uint64_t mean_record_bytes() const override {
    return num_records_ == 0 || images_.resizes() ? 0
                                                  : num_bytes_ / num_records_ + kOtherFeatureBytes;
  }
  std::vector<std::string> notes() const override;
  std::vector<std::string> built_notes() const override { return images_.notes(); }
  void ForgetBuilt() override { images_.Reset(); }
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override;
  absl::Status VisitContent(
      const Item& item, const std::function<void(std::string_view bytes)>& visit) const override;
  std::string InputFingerprint() const override { return fingerprint_.Hex(); }
  absl::Status AppendKey(const Item& item, std::string* key) const override {
    key->append(item.bytes.substr(1));
    return absl::OkStatus();
  }

 private:
  JsonSchema NewSchema() const {
    return JsonSchema([this](Place place) { return PathOfRecord(place.line); }, options_.choice);
  }
  std::string PathOfRecord(uint64_t number) const;
  // Includes pairs that were left out.
  absl::Status ForEachPair(const std::function<absl::Status(const Item&)>& sink) const;
  static std::vector<Pair> PairsOf(const FolderListing& listing);
  std::string PathOf(const FileTree::Folder& folder, std::string_view name) const {
    return tree_.PathOf(folder.root, fmt::format("{}{}", folder.path, name));
  }
  absl::Status ScanFolder(const FileTree::Folder& folder);
  absl::Status ScanPair(const FileTree::Folder& folder, const Pair& pair);
  absl::Status ScanJson(const std::string& path);

  FileTree tree_;
  const CaptionsOptions options_;
  ImageRewriter images_;
  JsonSchema schema_;
  WholeFile json_;
  uint64_t num_pairs_ = 0;  // includes pairs that were left out
  ItemList left_out_;
  uint64_t num_records_ = 0;
  uint64_t num_bytes_ = 0;
  Fingerprint fingerprint_;
  NameList other_files_;
  NameList loops_;
};

std::vector<Pair> CaptionsSource::PairsOf(const FolderListing& listing) {
  std::vector<Pair> found;
  for (size_t i = 0; i < listing.size(); ++i) {
    if (listing.kind(i) != EntryKind::kFile) continue;
    Pair one;
    const std::string_view name = listing.name(i);
    one.stem = StemOf(name);
    if (IsImageName(name)) {
      one.image = name;
      one.bytes = listing.file_size(i);
    }
    one.has_text = name.ends_with(".txt");
    one.has_json = name.ends_with(".json");
    if (!one.image.empty() || one.has_text || one.has_json) found.push_back(one);
  }
  // Names with the same stem need not be adjacent: "a-b.jpg" sorts before "a.jpg", and "a.b.jpg"
  // after.
  std::stable_sort(found.begin(), found.end(),
                   [](const Pair& a, const Pair& b) { return a.stem < b.stem; });
  std::vector<Pair> pairs;
  for (const Pair& one : found) {
    if (pairs.empty() || pairs.back().stem != one.stem) {
      pairs.push_back(one);
      continue;
    }
    Pair& pair = pairs.back();
    pair.has_text |= one.has_text;
    pair.has_json |= one.has_json;
    if (one.image.empty()) continue;
    if (pair.image.empty()) {
      pair.image = one.image;
      pair.bytes = one.bytes;
    } else {
      pair.second_image = one.image;
    }
  }
  return pairs;
}

std::string CaptionsSource::PathOfRecord(uint64_t number) const {
  std::string path;
  uint64_t n = 0;
  ForEachPair([&](const Item& item) {
    if (++n < number) return absl::OkStatus();
    path = tree_.PathOf(item.file, StemOf(item.bytes.substr(1))) + ".json";
    return absl::OutOfRangeError("found");
  }).IgnoreError();
  return path;
}

absl::Status CaptionsSource::ScanJson(const std::string& path) {
  absl::StatusOr<std::string_view> text = json_.Read(path);
  if (!text.ok()) return text.status();
  if (absl::Status status = CheckEncoding(path, *text); !status.ok()) return status;
  absl::StatusOr<simdjson::dom::object> object = ParseJsonObject(
      WithoutByteOrderMark(*text), path, 1, "the file must hold one JSON object", schema_.digits());
  if (!object.ok()) return object.status();
  absl::Status status = schema_.Add(*object, {0, num_pairs_ + 1});
  if (!status.ok()) {
    return WithMessage(status, fmt::format("{}: {}", path, std::string(status.message())));
  }
  for (std::string_view name : kOwnFeatures) {
    if (!schema_.HasFeature(std::string(name))) continue;
    return WithRemedy(absl::DataLossError(fmt::format(
                          "{}: the key {} has the name of a feature that the image or the text "
                          "makes; rename the key",
                          path, Excerpt(name))),
                      {"keep_json", "", "store the JSON unchanged instead"});
  }
  return absl::OkStatus();
}

absl::Status CaptionsSource::ScanPair(const FileTree::Folder& folder, const Pair& pair) {
  const std::string path = PathOf(folder, pair.image);
  if (!pair.second_image.empty()) {
    return absl::DataLossError(
        fmt::format("{}: {} has the same name except for the suffix, so it is unclear to which of "
                    "them the text belongs; rename one",
                    path, pair.second_image));
  }
  if (pair.bytes == 0) {
    return absl::DataLossError(
        fmt::format("{}: the file is empty; remove it, or get the image again", path));
  }
  if (!pair.has_text && !pair.has_json) {
    return absl::DataLossError(fmt::format("{}: the image has no text: expected {}.txt or {}.json",
                                           path, pair.stem, pair.stem));
  }
  if (pair.has_json && !options_.keep_json) {
    absl::Status status = ScanJson(PathOf(folder, fmt::format("{}.json", pair.stem)));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CaptionsSource::ScanFolder(const FileTree::Folder& folder) {
  for (size_t i = 0; i < folder.listing.size(); ++i) {
    const EntryKind kind = folder.listing.kind(i);
    const std::string_view name = folder.listing.name(i);
    if (kind == EntryKind::kFile) FileTree::AddTo(fingerprint_, folder, i);
    const bool fits = IsImageName(name) || name.ends_with(".txt") || name.ends_with(".json");
    if (fits && kind == EntryKind::kBrokenLink) {
      absl::Status defect = absl::NotFoundError(
          fmt::format("{}: the target of the link does not exist", PathOf(folder, name)));
      if (!LeaveOut(defect)) return defect;
      continue;
    }
    if (kind != EntryKind::kFolder && (!fits || kind != EntryKind::kFile)) {
      other_files_.Add(PathOf(folder, name));
    }
  }
  for (const Pair& pair : PairsOf(folder.listing)) {
    if (pair.image.empty()) {
      other_files_.Add(
          PathOf(folder, fmt::format("{}.{}", pair.stem, pair.has_text ? "txt" : "json")));
      continue;
    }
    absl::Status status = ScanPair(folder, pair);
    if (status.ok()) {
      ++num_records_;
      num_bytes_ += pair.bytes;
    } else if (absl::IsDataLoss(status) && LeaveOut(status)) {
      left_out_.Add(num_pairs_);
    } else {
      return status;
    }
    ++num_pairs_;
  }
  return absl::OkStatus();
}

absl::Status CaptionsSource::Scan(std::stop_token stop,
                                  const std::function<void(uint64_t bytes)>& progress) {
  schema_ = NewSchema();
  num_pairs_ = num_records_ = num_bytes_ = 0;
  left_out_ = ItemList();
  other_files_ = loops_ = NameList();
  fingerprint_ = {};
  absl::Status status = tree_.ForEachFolder(
      /*with_sizes=*/true,
      [&](const FileTree::Folder& folder) -> absl::Status {
        if (stop.stop_requested()) return absl::CancelledError("interrupted");
        if (absl::Status s = ScanFolder(folder); !s.ok()) return s;
        if (progress) progress(num_bytes_);
        return absl::OkStatus();
      },
      [&](std::string_view path) { loops_.Add(path); });
  if (!status.ok()) return status;
  if (num_records_ == 0) {
    return absl::DataLossError(
        fmt::format("{}: no images (files named {})", tree_.PathOf(0, ""), ImageSuffixes()));
  }
  absl::Status columns = schema_.CheckColumns();
  if (columns.ok()) return columns;
  return absl::Status(columns.code(),
                      fmt::format("{}: {}", tree_.PathOf(0, ""), std::string(columns.message())));
}

std::vector<std::string> CaptionsSource::notes() const {
  std::vector<std::string> notes;
  const bool one = other_files_.count() == 1;
  other_files_.AppendNote(
      "skipped", "file", "files",
      one ? "that is neither an image nor its text" : "that are neither images nor their texts",
      &notes);
  loops_.AppendNote("skipped", "link", "links", "to a folder that contains the link", &notes);
  for (std::string& note : schema_.Notes()) notes.push_back(std::move(note));
  return notes;
}

absl::Status CaptionsSource::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  ItemList::Pass left_out(left_out_);
  return ForEachPair(
      [&](const Item& item) { return left_out.Next() ? absl::OkStatus() : sink(item); });
}

absl::Status CaptionsSource::ForEachPair(
    const std::function<absl::Status(const Item&)>& sink) const {
  std::string bytes;  // a bit set of the texts, then the image's path
  return tree_.ForEachFolder(
      /*with_sizes=*/false,
      [&](const FileTree::Folder& folder) -> absl::Status {
        for (const Pair& pair : PairsOf(folder.listing)) {
          if (pair.image.empty()) continue;
          bytes.assign(1, static_cast<char>((pair.has_text ? 1 : 0) | (pair.has_json ? 2 : 0)));
          bytes += folder.path;
          bytes += pair.image;
          Item item;
          item.bytes = bytes;
          item.file = folder.root;
          if (absl::Status status = sink(item); !status.ok()) return status;
        }
        return absl::OkStatus();
      },
      [](std::string_view) {});
}

absl::Status CaptionsSource::Build(const Item& item, ExampleBuilder& builder) const {
  thread_local WholeFile image_file;
  thread_local WholeFile text_file;
  thread_local WholeFile json_file;
  const bool has_text = (item.bytes[0] & 1) != 0;
  const bool has_json = (item.bytes[0] & 2) != 0;
  const std::string_view name = item.bytes.substr(1);
  const std::string path = tree_.PathOf(item.file, name);
  absl::StatusOr<std::string_view> image = image_file.Read(path);
  if (!image.ok()) return image.status();
  absl::Status status = AddImage(path, name, *image, images_, builder);
  if (!status.ok()) return status;
  const std::string stem(StemOf(path));
  if (has_json) {
    const std::string json_path = stem + ".json";
    absl::StatusOr<std::string_view> json = json_file.Read(json_path);
    if (!json.ok()) return json.status();
    if (options_.keep_json) {
      builder.AddBorrowedBytes("json", *json);
    } else {
      simdjson::dom::element root;
      simdjson::dom::object object;
      if (ParseJson(WithoutByteOrderMark(*json), &root, schema_.digits()) != simdjson::SUCCESS ||
          root.get(object) != simdjson::SUCCESS || !schema_.Build(object, builder).ok()) {
        return absl::FailedPreconditionError(fmt::format(
            "{}: changed while it was being read; run again once it is complete", json_path));
      }
    }
  }
  if (has_text) {
    const std::string text_path = stem + ".txt";
    absl::StatusOr<std::string_view> text = text_file.Read(text_path);
    if (!text.ok()) return text.status();
    if (status = CheckEncoding(text_path, *text); !status.ok()) return status;
    const char* const begin = text->data();
    *text = WithoutByteOrderMark(*text);
    while (text->ends_with('\n') || text->ends_with('\r')) text->remove_suffix(1);
    if (!IsUtf8(*text)) {
      return absl::DataLossError(fmt::format(
          "{}: not UTF-8; convert it, for example with iconv -f WINDOWS-1252 -t UTF-8", text_path));
    }
    if (const size_t nul = text->find('\0'); nul != text->npos) {
      return absl::DataLossError(
          fmt::format("{}: a NUL byte at byte {}, which may be binary or UTF-16", text_path,
                      text->data() + nul - begin));
    }
    builder.AddBorrowedBytes("text", *text);
  }
  return absl::OkStatus();
}

absl::Status CaptionsSource::VisitContent(
    const Item& item, const std::function<void(std::string_view bytes)>& visit) const {
  return VisitFile(tree_.PathOf(item.file, item.bytes.substr(1)), visit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeCaptionsSource(std::vector<std::string> folders,
                                                           CaptionsOptions options) {
  if (folders.empty()) return absl::InvalidArgumentError("expected folders of images, got none");
  return std::make_unique<CaptionsSource>(std::move(folders), std::move(options));
}

}  // namespace shardfeed
