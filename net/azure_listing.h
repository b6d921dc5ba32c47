// Listings of Azure's containers.

#ifndef SHARDFEED_NET_AZURE_LISTING_H_
#define SHARDFEED_NET_AZURE_LISTING_H_

#include <cstdint>
#include <ctime>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "net/store.h"

namespace shardfeed {

struct ListedBlob {
  std::string name;  // without the folder's, and without '/' at its end
  bool is_folder = false;
  uint64_t size = 0;
  std::string version;  // ETag, with its quotes; empty: it has only blocks
  std::time_t modified = 0;
};

// Calls `found` with each blob and folder directly in a folder, whose path has no '/' at its end;
// `uncommitted`: also with blobs that have only blocks. Waits for the store. Unavailable:
// the answer is not a listing. Others: those of Store::ErrorOf.
absl::Status ListBlobs(const Store& store, const std::string& folder, bool uncommitted,
                       const std::function<void(ListedBlob)>& found);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_AZURE_LISTING_H_
