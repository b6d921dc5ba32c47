#include "pipeline/run_context.h"

#include "fmt/format.h"

namespace shardfeed {

void RunContext::SetDescriber(uint32_t source, std::function<std::string(uint64_t, uint64_t)> f) {
  std::lock_guard<std::mutex> lock(mutex_);
  describe_[source] = std::move(f);
}

std::string RunContext::Describe(const Batch& batch, size_t row) const {
  RowOrigin origin;
  if (!batch.OriginOf(row, &origin)) return "";
  std::function<std::string(uint64_t, uint64_t)> describe;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = describe_.find(origin.source);
    if (it != describe_.end()) describe = it->second;
  }
  if (describe) return describe(origin.epoch, origin.position);
  return fmt::format("element {} of epoch {}", origin.position, origin.epoch);
}

std::shared_ptr<StageCounters> RunContext::Counters(const void* key, const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [k, counters] : counters_) {
    if (k == key) return counters;
  }
  counters_.emplace_back(key, std::make_shared<StageCounters>());
  counters_.back().second->name = name;
  return counters_.back().second;
}

std::vector<std::shared_ptr<StageCounters>> RunContext::AllCounters() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<StageCounters>> all;
  for (const auto& entry : counters_) all.push_back(entry.second);
  return all;
}

}  // namespace shardfeed
