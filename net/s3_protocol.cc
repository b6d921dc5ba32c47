#include "net/s3_protocol.h"

#include <charconv>
#include <ctime>
#include <map>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "net/transfers.h"
#include "net/url.h"
#include "pugixml.hpp"

namespace shardfeed {
namespace {

constexpr size_t kMaxListingBytes = 16 << 20;

}  // namespace

S3Error S3Error::Of(const HttpResponse& response) {
  pugi::xml_document xml;
  xml.load_buffer(response.body.data(), response.body.size());
  const pugi::xml_node error = xml.child("Error");
  return {error.child_value("Code"), error.child_value("Message"), error.child_value("Details"),
          error.child_value("Region")};
}

std::string S3Error::Text(const HttpResponse& response) const {
  if (code.empty()) return fmt::format("answered {}", response.status);
  return fmt::format("{}: {}", code, details.empty() ? message : details);
}

std::optional<std::time_t> TimeOfRefusal(const S3Error& error, const HttpResponse& response) {
  if (error.code != "RequestTimeTooSkewed") return std::nullopt;
  return ParseHttpDate(response.Header("date"));
}

std::time_t TimeOf(const char* text) {
  std::tm time = {};
  return ::strptime(text, "%Y-%m-%dT%H:%M:%S", &time) == nullptr ? 0 : ::timegm(&time);
}

absl::Status CheckNextPage(std::string_view folder, const std::string& next,
                           std::set<std::string>* pages) {
  if (next.empty()) {
    return absl::UnavailableError(fmt::format(
        "{}: cannot be listed: the server says that there is another page, but not which", folder));
  }
  if (!pages->insert(next).second) {
    return absl::UnavailableError(
        fmt::format("{}: cannot be listed: the server lists the same page again", folder));
  }
  return absl::OkStatus();
}

absl::StatusOr<ObjectListing> ListBucket(const Store& store, const std::string& bucket,
                                         const std::string& folder) {
  const std::string key(SplitUrl(folder).key);
  const std::string prefix = key.empty() ? "" : key + "/";
  std::map<std::string, std::string> query = {
      {"delimiter", "/"}, {"list-type", "2"}, {"max-keys", "1000"}, {"prefix", prefix}};
  ObjectListing listing;
  std::set<std::string> pages;
  while (true) {
    absl::StatusOr<HttpResponse> response =
        CallStore(store, bucket + "/", {.query = query, .max_body = kMaxListingBytes});
    if (!response.ok()) {
      return absl::Status(response.status().code(),
                          fmt::format("{}: cannot be listed: {}", folder,
                                      std::string(response.status().message())));
    }
    pugi::xml_document xml;
    const bool parsed = xml.load_buffer(response->body.data(), response->body.size());
    const pugi::xml_node result = xml.child("ListBucketResult");
    if (!parsed || !result) {
      return absl::UnavailableError(
          fmt::format("{}: the server's answer is not a listing", folder));
    }
    for (const pugi::xml_node object : result.children("Contents")) {
      const std::string name = object.child_value("Key");
      if (!name.starts_with(prefix) || name == prefix) continue;  // a folder's own marker
      ObjectInfo info;
      info.path = fmt::format("{}/{}", bucket, name);
      const std::string_view size = object.child_value("Size");
      if (std::from_chars(size.data(), size.data() + size.size(), info.size).ec != std::errc()) {
        return absl::UnavailableError(
            fmt::format("{}: the server lists {} without a size", folder, name));
      }
      info.version = object.child_value("ETag");
      info.modified = TimeOf(object.child_value("LastModified"));
      listing.objects.push_back(std::move(info));
    }
    for (const pugi::xml_node common : result.children("CommonPrefixes")) {
      std::string name = common.child_value("Prefix");
      if (!name.starts_with(prefix)) continue;
      name = name.substr(prefix.size());
      if (name.ends_with('/')) name.pop_back();
      if (!name.empty()) listing.folders.push_back(std::move(name));
    }
    if (std::string_view(result.child_value("IsTruncated")) != "true") break;
    const std::string next = result.child_value("NextContinuationToken");
    if (absl::Status status = CheckNextPage(folder, next, &pages); !status.ok()) return status;
    query["continuation-token"] = next;
  }
  return listing;
}

}  // namespace shardfeed
