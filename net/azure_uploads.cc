#include "net/azure_uploads.h"

#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "base/random_digits.h"
#include "fmt/format.h"
#include "io/parallel.h"
#include "net/azure_listing.h"
#include "net/store.h"
#include "pugixml.hpp"

namespace shardfeed {
namespace {

// A blob has up to 100,000 blocks that are not committed.
constexpr size_t kMaxBlockListBytes = 32 << 20;
// Maximum number of concurrent requests.
constexpr int kRequests = 32;
constexpr size_t kUploadDigits = 8;

// All names of blocks of a blob must have one length, and at most 64 bytes before Base64. These
// have 32 + 1 + 8 + 1 + 6 = 48.
std::string BlockName(std::string_view upload, uint64_t number) {
  return absl::Base64Escape(fmt::format("{}-{:06}", upload, number));
}

}  // namespace

StoreCall AzureUploads::Put(Body body, const std::string& writer, bool replace) const {
  StoreCall call = PutCall(std::move(body));
  call.store_headers = {{"x-ms-blob-type", "BlockBlob"}};
  if (!writer.empty()) call.store_headers[std::string(store_.writer_header())] = writer;
  if (!replace) call.headers.push_back("If-None-Match: *");
  return call;
}

std::string AzureUploads::NewUpload(const std::string& writer) const {
  // A writer may begin an object again while a request of the first attempt is still on its way.
  return fmt::format("{}-{}", writer, RandomDigits(kUploadDigits));
}

std::map<std::string, std::string> AzureUploads::PartQuery(const std::string& upload,
                                                           uint64_t number) const {
  return {{"blockid", BlockName(upload, number)}, {"comp", "block"}};
}

absl::StatusOr<std::string> AzureUploads::PartName(const std::string& /*path*/,
                                                   const std::string& upload, uint64_t number,
                                                   const HttpResponse& /*response*/) const {
  return BlockName(upload, number);
}

StoreCall AzureUploads::Complete(const PendingObject& object) const {
  // "Uncommitted": a list that comes late does not commit again what it committed before,
  // which would remove the blocks of a new writer.
  std::string body = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>";
  for (const std::string& block : object.parts) {
    body += fmt::format("<Uncommitted>{}</Uncommitted>",
                        absl::StrReplaceAll(block, {{"&", "&amp;"}, {"<", "&lt;"}}));
  }
  body += "</BlockList>";
  StoreCall call = PutCall(std::make_shared<const std::string>(std::move(body)));
  call.query = {{"comp", "blocklist"}};
  call.store_headers = {{std::string(store_.writer_header()), object.writer}};
  return call;
}

absl::StatusOr<std::string> AzureUploads::Completed(const std::string& path,
                                                    const HttpResponse& response) const {
  const std::string_view tag = response.Header("etag");
  if (!tag.empty()) return std::string(tag);
  return absl::UnavailableError(
      fmt::format("{}: the server answered something that is not Azure's protocol", path));
}

absl::StatusOr<bool> AzureUploads::HasParts(const PendingObject& object) const {
  const absl::StatusOr<HttpResponse> response =
      CallStore(store_, object.path,
                {.query = {{"blocklisttype", "uncommitted"}, {"comp", "blocklist"}},
                 .max_body = kMaxBlockListBytes});
  if (absl::IsNotFound(response.status())) return false;
  if (!response.ok()) return response.status();
  pugi::xml_document xml;
  xml.load_buffer(response->body.data(), response->body.size());
  const pugi::xml_node list = xml.child("BlockList");
  if (!list) {
    return absl::UnavailableError(
        fmt::format("{}: the server answered something that is not a list of blocks", object.path));
  }
  std::map<std::string, uint64_t> there;
  for (const pugi::xml_node block : list.child("UncommittedBlocks").children("Block")) {
    const std::string_view text = block.child_value("Size");
    uint64_t size = 0;
    std::from_chars(text.data(), text.data() + text.size(), size);
    there[block.child_value("Name")] = size;
  }
  uint64_t bytes = 0;
  for (const std::string& part : object.parts) {
    const auto it = there.find(part);
    if (it == there.end()) return false;
    bytes += it->second;
  }
  return bytes == object.bytes;
}

absl::StatusOr<std::vector<size_t>> AzureUploads::WithoutParts(
    const std::vector<PendingObject>& objects) const {
  std::vector<char> there(objects.size(), 1);
  absl::Status status = ParallelFor(objects.size(), kRequests, {}, [&](size_t i) -> absl::Status {
    if (objects[i].upload.empty()) return absl::OkStatus();
    const absl::StatusOr<bool> has = HasParts(objects[i]);
    if (has.ok()) there[i] = *has ? 1 : 0;
    return has.status();
  });
  if (!status.ok()) return status;
  std::vector<size_t> missing;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (there[i] == 0) missing.push_back(i);
  }
  return missing;
}

absl::StatusOr<std::vector<UnfinishedUpload>> AzureUploads::List(const std::string& folder) const {
  std::vector<UnfinishedUpload> found;
  absl::Status status = ListBlobs(store_, folder, /*uncommitted=*/true, [&](ListedBlob blob) {
    if (blob.is_folder || !blob.version.empty()) return;
    found.push_back({fmt::format("{}/{}", folder, blob.name), "", 0, /*expires=*/true});
  });
  if (!status.ok()) return status;
  return found;
}

}  // namespace shardfeed
