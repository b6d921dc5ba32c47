#include "net/azure_listing.h"

#include <charconv>
#include <ctime>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "net/transfers.h"
#include "net/url.h"
#include "pugixml.hpp"

namespace shardfeed {
namespace {

constexpr size_t kMaxListingBytes = 32 << 20;

}  // namespace

absl::Status ListBlobs(const Store& store, const std::string& folder, bool uncommitted,
                       const std::function<void(ListedBlob)>& found) {
  const UrlParts parts = SplitUrl(folder);
  const std::string container = fmt::format("{}://{}/", parts.scheme, parts.host);
  const std::string prefix = parts.key.empty() ? "" : std::string(parts.key) + "/";
  std::map<std::string, std::string> query = {{"comp", "list"},
                                              {"delimiter", "/"},
                                              {"maxresults", "5000"},
                                              {"prefix", prefix},
                                              {"restype", "container"}};
  if (uncommitted) query["include"] = "uncommittedblobs";
  std::set<std::string> pages;
  while (true) {
    absl::StatusOr<HttpResponse> response =
        CallStore(store, container, {.query = query, .max_body = kMaxListingBytes});
    if (!response.ok()) return response.status();
    pugi::xml_document xml;
    const bool parsed = xml.load_buffer(response->body.data(), response->body.size());
    const pugi::xml_node result = xml.child("EnumerationResults");
    if (!parsed || !result) {
      return absl::UnavailableError(
          fmt::format("{}: the server's answer is not a listing", folder));
    }
    for (const pugi::xml_node node : result.child("Blobs").children()) {
      std::string name = node.child_value("Name");
      if (!name.starts_with(prefix)) continue;
      name = name.substr(prefix.size());
      ListedBlob blob;
      blob.is_folder = std::string_view(node.name()) == "BlobPrefix";
      if (blob.is_folder && name.ends_with('/')) name.pop_back();
      // A folder's own marker has the name of the folder.
      if (name.empty() || name.find('/') != name.npos) continue;
      blob.name = std::move(name);
      const pugi::xml_node properties = node.child("Properties");
      // Accounts with a hierarchical namespace list folders in both ways.
      if (std::string_view(properties.child_value("ResourceType")) == "directory" &&
          !blob.is_folder) {
        continue;
      }
      if (!blob.is_folder) {
        const std::string_view size = properties.child_value("Content-Length");
        const auto [end, error] =
            std::from_chars(size.data(), size.data() + size.size(), blob.size);
        blob.version = properties.child_value("Etag");
        // Here it has no quotes; elsewhere it does.
        if (!blob.version.empty() && !blob.version.starts_with('"')) {
          blob.version = fmt::format("\"{}\"", blob.version);
        }
        if (blob.version.empty() && !uncommitted) continue;
        std::tm modified = {};
        if (::strptime(properties.child_value("Last-Modified"), "%a, %d %b %Y %H:%M:%S",
                       &modified) != nullptr) {
          blob.modified = ::timegm(&modified);
        }
        if (!blob.version.empty() && (error != std::errc() || end != size.data() + size.size())) {
          return absl::UnavailableError(
              fmt::format("{}: the server lists {} without a size", folder, blob.name));
        }
      }
      found(std::move(blob));
    }
    // A page without objects is not necessarily the last one.
    const std::string next = result.child_value("NextMarker");
    if (next.empty()) return absl::OkStatus();
    if (!pages.insert(next).second) {
      return absl::UnavailableError(
          fmt::format("{}: the server lists the same page again", folder));
    }
    query["marker"] = next;
  }
}

}  // namespace shardfeed
