// A bucket of S3 whose objects are the files of a folder, so that tests look at them, damage and
// remove them by the same calls as files.

#ifndef SHARDFEED_TESTS_NET_FOLDER_BUCKET_H_
#define SHARDFEED_TESTS_NET_FOLDER_BUCKET_H_

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"

namespace shardfeed::testing {

struct SeenRequest;

// Answers what S3Store and upload.h ask a bucket for: objects by ranges, PutObject with
// If-None-Match, multipart uploads, DELETE and paged listings. Thread-safe. Signatures are not
// looked at; moto and botocore judge those. Parts of uploads are in memory, and folders that an
// object made are removed with the last object in them, since stores have no folders.
class FolderBucket {
 public:
  FolderBucket(std::string name, std::string folder)
      : name_(std::move(name)), folder_(std::move(folder)) {}

  struct Object {
    std::shared_ptr<const std::string> bytes;
    std::string tag;
    std::string writer;        // x-amz-meta-shardfeed-writer
    std::time_t modified = 0;  // when it was written
  };
  // The object that a path without escapes ("/BUCKET/KEY") names.
  std::optional<Object> Find(const std::string& path) const;

  // The whole response to everything but a GET or HEAD of an object; nullopt for these.
  std::optional<std::string> Answer(const SeenRequest& request);

 private:
  struct Upload {
    std::string key;
    std::string writer;
    std::map<uint64_t, std::string> parts;
  };
  using Query = std::map<std::string, std::string>;

  std::string File(const std::string& key) const { return folder_ + "/" + key; }
  struct Content {
    std::shared_ptr<const std::string> bytes;
    std::string tag;
    std::time_t modified = 0;
  };
  std::optional<Content> Read(const std::string& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write(const std::string& key, const std::string& bytes, const std::string& writer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Complete(const std::string& key, const std::string& id, const std::string& body)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string List(const Query& query) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string ListUploads(const Query& query) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const std::string folder_;
  mutable Mutex mutex_;
  // By key: the tag of the object when it was written, and by whom.
  std::map<std::string, std::pair<std::string, std::string>> writers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Upload> uploads_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> made_folders_ ABSL_GUARDED_BY(mutex_);
  // What was read lately, by key: as long as the file has the time and size that it had then.
  struct Known {
    std::filesystem::file_time_type time;
    Content content;
  };
  mutable std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A response with its Content-Length. `headers`: "Name: value\r\n".
std::string HttpAnswer(int status, std::string_view headers, std::string_view body);

// Percent-escapes undone.
std::string Unescape(std::string_view text);

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_NET_FOLDER_BUCKET_H_
