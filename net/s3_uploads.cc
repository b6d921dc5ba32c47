#include "net/s3_uploads.h"

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_replace.h"
#include "fmt/format.h"
#include "net/s3_protocol.h"
#include "net/store.h"
#include "net/url.h"
#include "pugixml.hpp"

namespace shardfeed {
namespace {

constexpr size_t kMaxListingBytes = 16 << 20;

// The error for a response whose root element is not the expected one.
absl::Status Unexpected(std::string_view path, const pugi::xml_document& xml) {
  const pugi::xml_node error = xml.child("Error");
  return absl::UnavailableError(
      error
          ? fmt::format("{}: {}: {}", path, error.child_value("Code"), error.child_value("Message"))
          : fmt::format("{}: the server answered something that is not S3's protocol", path));
}

}  // namespace

StoreCall S3Uploads::Put(Body body, const std::string& writer, bool replace) const {
  StoreCall call = PutCall(std::move(body));
  if (!writer.empty()) call.store_headers[std::string(store_.writer_header())] = writer;
  if (!replace) call.store_headers["if-none-match"] = "*";
  return call;
}

StoreCall S3Uploads::Begin(const std::string& writer) const {
  StoreCall call;
  call.method = "POST";
  call.query = {{"uploads", ""}};
  call.store_headers = {{std::string(store_.writer_header()), writer}};
  return call;
}

absl::StatusOr<std::string> S3Uploads::BegunUpload(const std::string& path,
                                                   const HttpResponse& response) const {
  pugi::xml_document xml;
  xml.load_buffer(response.body.data(), response.body.size());
  std::string id = xml.child("InitiateMultipartUploadResult").child_value("UploadId");
  if (id.empty()) return Unexpected(path, xml);
  return id;
}

std::map<std::string, std::string> S3Uploads::PartQuery(const std::string& upload,
                                                        uint64_t number) const {
  return {{"partNumber", fmt::format("{}", number + 1)}, {"uploadId", upload}};
}

absl::StatusOr<std::string> S3Uploads::PartName(const std::string& path,
                                                const std::string& /*upload*/, uint64_t number,
                                                const HttpResponse& response) const {
  const std::string_view tag = response.Header("etag");
  if (!tag.empty()) return std::string(tag);
  return absl::UnavailableError(
      fmt::format("{}: the server gave no ETag for part {}", path, number + 1));
}

StoreCall S3Uploads::Complete(const PendingObject& object) const {
  StoreCall call;
  call.method = "POST";
  call.query = {{"uploadId", object.upload}};
  std::string body = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < object.parts.size(); ++i) {
    body += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1,
                        absl::StrReplaceAll(object.parts[i], {{"&", "&amp;"}, {"<", "&lt;"}}));
  }
  body += "</CompleteMultipartUpload>";
  call.body = std::make_shared<const std::string>(std::move(body));
  return call;
}

// The answer begins before the store is done, so it says 200 even where it fails.
absl::StatusOr<std::string> S3Uploads::Completed(const std::string& path,
                                                 const HttpResponse& response) const {
  pugi::xml_document xml;
  xml.load_buffer(response.body.data(), response.body.size());
  const pugi::xml_node done = xml.child("CompleteMultipartUploadResult");
  if (!done) return Unexpected(path, xml);
  return std::string(done.child_value("ETag"));
}

std::optional<StoreCall> S3Uploads::Discard(const std::string& upload) const {
  StoreCall call;
  call.method = "DELETE";
  call.query = {{"uploadId", upload}};
  return call;
}

absl::StatusOr<std::vector<size_t>> S3Uploads::WithoutParts(
    const std::vector<PendingObject>& objects) const {
  std::set<std::string> folders;
  for (const PendingObject& object : objects) {
    folders.insert(object.path.substr(0, object.path.rfind('/')));
  }
  std::set<std::pair<std::string, std::string>> there;
  for (const std::string& folder : folders) {
    absl::StatusOr<std::vector<UnfinishedUpload>> uploads = List(folder);
    if (!uploads.ok()) return uploads.status();
    for (UnfinishedUpload& upload : *uploads) {
      there.emplace(std::move(upload.path), std::move(upload.upload));
    }
  }
  std::vector<size_t> missing;
  for (size_t i = 0; i < objects.size(); ++i) {
    const PendingObject& object = objects[i];
    if (!object.upload.empty() && !there.contains({object.path, object.upload})) {
      missing.push_back(i);
    }
  }
  return missing;
}

absl::StatusOr<std::vector<UnfinishedUpload>> S3Uploads::List(const std::string& folder) const {
  const UrlParts parts = SplitUrl(folder);
  const std::string prefix = parts.key.empty() ? "" : std::string(parts.key) + "/";
  const std::string bucket = fmt::format("{}://{}/", parts.scheme, parts.host);
  StoreCall call;
  call.query = {{"uploads", ""}, {"prefix", prefix}};
  call.max_body = kMaxListingBytes;
  std::vector<UnfinishedUpload> found;
  std::set<std::string> pages;
  while (true) {
    absl::StatusOr<HttpResponse> response = CallStore(store_, bucket, call);
    if (!response.ok()) return response.status();
    pugi::xml_document xml;
    xml.load_buffer(response->body.data(), response->body.size());
    const pugi::xml_node result = xml.child("ListMultipartUploadsResult");
    if (!result) return Unexpected(folder, xml);
    for (const pugi::xml_node node : result.children("Upload")) {
      const std::string key = node.child_value("Key");
      if (!key.starts_with(prefix) || key.find('/', prefix.size()) != key.npos) continue;
      found.push_back(
          {bucket + key, node.child_value("UploadId"), TimeOf(node.child_value("Initiated"))});
    }
    if (std::string_view(result.child_value("IsTruncated")) != "true") break;
    // Without the key, the marker of an upload has no effect.
    const std::string key = result.child_value("NextKeyMarker");
    const std::string upload = result.child_value("NextUploadIdMarker");
    const std::string next = key.empty() ? "" : key + "\n" + upload;
    if (absl::Status status = CheckNextPage(folder, next, &pages); !status.ok()) return status;
    call.query["key-marker"] = key;
    call.query["upload-id-marker"] = upload;
  }
  return found;
}

}  // namespace shardfeed
