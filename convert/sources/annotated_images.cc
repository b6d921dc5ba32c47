#include "convert/sources/annotated_images.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/excerpt.h"
#include "convert/input/whole_file.h"
#include "fmt/format.h"
#include "io/errno_status.h"

namespace shardfeed {
namespace {

// Whether the path stays below the folder that it is relative to, whatever that is.
bool IsBelow(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\0') != name.npos) return false;
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('/'));
    if (part == "..") return false;
    name.remove_prefix(std::min(part.size() + 1, name.size()));
  }
  return true;
}

}  // namespace

void AnnotatedImages::ClearImages() {
  folders_.clear();
  names_.clear();
  images_.clear();
  num_dropped_ = num_bytes_ = 0;
  fingerprint_ = {};
}

uint32_t AnnotatedImages::AddFolder(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  folders_.push_back(path == "/" ? "" : std::move(path));
  return folders_.size() - 1;
}

absl::StatusOr<uint64_t> AnnotatedImages::AddToFingerprint(const std::string& path) {
  struct stat stat;
  if (::stat(path.c_str(), &stat) != 0) return ErrnoStatus(errno, path, "open");
  if (S_ISDIR(stat.st_mode)) return ErrnoStatus(EISDIR, path, "read");
  fingerprint_.Add(path);
  fingerprint_.Add(static_cast<uint64_t>(stat.st_size));
  fingerprint_.Add(static_cast<uint64_t>(stat.st_mtim.tv_sec) * 1'000'000'000 +
                   stat.st_mtim.tv_nsec);
  return stat.st_size;
}

absl::Status AnnotatedImages::AddFile(uint32_t folder, std::string_view name) {
  images_.push_back({.begin = names_.size(),
                     .size = static_cast<uint32_t>(name.size()),
                     .folder = folder,
                     .dropped = 0});
  names_ += name;
  if (!IsBelow(name)) {
    return absl::DataLossError(fmt::format(
        "the name {} leads outside of the folder of images, {}; names are relative to it",
        Excerpt(name), folders_[folder]));
  }
  const std::string path = PathOf(images_.size() - 1);
  absl::StatusOr<uint64_t> size = AddToFingerprint(path);
  if (!size.ok()) return size.status();
  if (*size == 0) {
    return absl::DataLossError(
        fmt::format("{}: the file is empty; remove it, or get the image again", path));
  }
  num_bytes_ += *size;
  return absl::OkStatus();
}

void AnnotatedImages::Drop(uint64_t number) {
  num_dropped_ += !images_[number].dropped;
  images_[number].dropped = 1;
}

absl::Status AnnotatedImages::AddAnnotationFile(const std::string& path) {
  absl::StatusOr<uint64_t> size = AddToFingerprint(path);
  if (size.ok()) num_bytes_ += *size;
  return size.status();
}

std::string AnnotatedImages::PathOf(uint64_t number) const {
  return fmt::format("{}/{}", folders_[images_[number].folder], NameOf(number));
}

absl::StatusOr<ImageHeader> AnnotatedImages::ReadHeader(uint64_t number) const {
  thread_local WholeFile file;
  const std::string path = PathOf(number);
  absl::StatusOr<std::string_view> bytes = file.Read(path);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<ImageHeader> header = ReadImageHeader(*bytes);
  if (header.ok()) return header;
  // An image of a format that is not supported can be left out, too.
  return absl::DataLossError(fmt::format("{}: {}", path, std::string(header.status().message())));
}

absl::Status AnnotatedImages::CheckSize(uint64_t number, const ImageHeader& header, uint32_t width,
                                        uint32_t height, std::string_view file) const {
  if (header.width == width && header.height == height) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{}: the image has {}x{} pixels, but {} was made for {}x{}; get the image that "
                  "was annotated{}",
                  PathOf(number), header.width, header.height, file, width, height,
                  header.width == height && header.height == width
                      ? ", or rotate this one as its Exif orientation says"
                      : ""));
}

Item AnnotatedImages::MakeItem(uint64_t number, const Item& row, std::string& bytes) {
  bytes.assign(reinterpret_cast<const char*>(&number), sizeof(number));
  bytes += row.bytes;
  Item item = row;
  item.bytes = bytes;
  return item;
}

uint64_t AnnotatedImages::NumberOf(const Item& item) {
  uint64_t number;
  std::memcpy(&number, item.bytes.data(), sizeof(number));
  return number;
}

absl::Status AnnotatedImages::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  std::string bytes;
  for (uint64_t number = 0; number < images_.size(); ++number) {
    if (images_[number].dropped) continue;
    if (absl::Status s = sink(MakeItem(number, {}, bytes)); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status AnnotatedImages::Build(const Item& item, ExampleBuilder& builder) const {
  thread_local WholeFile file;
  const uint64_t number = NumberOf(item);
  const std::string path = PathOf(number);
  absl::StatusOr<std::string_view> bytes = file.Read(path);
  if (!bytes.ok()) return bytes.status();
  ImageHeader header;
  absl::Status status = AddImage(path, NameOf(number), *bytes, rewriter_, builder, &header);
  if (!status.ok()) return status;
  Item row = item;
  row.bytes.remove_prefix(sizeof(number));
  return AddFeatures(number, row, header, builder);
}

absl::Status AnnotatedImages::AppendKey(const Item& item, std::string* key) const {
  key->append(NameOf(NumberOf(item)));
  return absl::OkStatus();
}

absl::Status AnnotatedImages::VisitContent(
    const Item& item, const std::function<void(std::string_view bytes)>& visit) const {
  return VisitFile(PathOf(NumberOf(item)), visit);
}

}  // namespace shardfeed
