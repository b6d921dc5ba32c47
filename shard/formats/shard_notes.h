// What users should know about the shards of a dataset.

#ifndef SHARDFEED_SHARD_FORMATS_SHARD_NOTES_H_
#define SHARDFEED_SHARD_FORMATS_SHARD_NOTES_H_

#include <string>
#include <utility>
#include <vector>

namespace shardfeed {

// Collects the notes on shards, in their order. Those that are the same as the preceding shard's
// appear once: the columns of all MDS shards of a dataset are the same.
class ShardNotes {
 public:
  void Add(std::vector<std::string> of_shard) {
    if (of_shard != last_) all_.insert(all_.end(), of_shard.begin(), of_shard.end());
    last_ = std::move(of_shard);
  }
  // Adds a note of another kind.
  void Add(std::string note) { all_.push_back(std::move(note)); }
  std::vector<std::string> Take() { return std::move(all_); }

 private:
  std::vector<std::string> last_;
  std::vector<std::string> all_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FORMATS_SHARD_NOTES_H_
