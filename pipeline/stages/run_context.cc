#include "pipeline/stages/run_context.h"

#include <algorithm>
#include <utility>

#include "base/mutex.h"
#include "fmt/format.h"

namespace shardfeed {

void RunContext::SetDescriber(uint32_t source, std::function<std::string(uint64_t, uint64_t)> f) {
  MutexLock lock(mutex_);
  describe_[source] = std::move(f);
}

void RunContext::SetPast(MixPast past) {
  MutexLock lock(mutex_);
  past_.emplace(std::move(past));
}

std::optional<MixPast> RunContext::past() const {
  MutexLock lock(mutex_);
  return past_;
}

std::string RunContext::Prefix(const Batch& batch, size_t row) const {
  RowOrigin origin;
  if (!batch.OriginOf(row, &origin)) return "";
  std::function<std::string(uint64_t, uint64_t)> describe;
  {
    MutexLock lock(mutex_);
    const auto it = describe_.find(origin.source);
    if (it != describe_.end()) describe = it->second;
  }
  if (describe) return describe(origin.epoch, origin.position) + ": ";
  return fmt::format("element {} of epoch {}: ", origin.position, origin.epoch);
}

std::shared_ptr<StageCounters> RunContext::Counters(
    const void* key, const std::string& name, const std::function<void(StageCounters&)>& start) {
  MutexLock lock(mutex_);
  for (const auto& [k, counters] : counters_) {
    if (k == key) return counters;
  }
  auto made = std::make_shared<StageCounters>();
  made->name = name;
  const auto taken = [&](const auto& entry) { return entry.second->name == made->name; };
  for (int n = 2; std::any_of(counters_.begin(), counters_.end(), taken); ++n) {
    made->name = fmt::format("{} {}", name, n);
  }
  start(*made);
  counters_.emplace_back(key, made);
  return made;
}

std::vector<std::shared_ptr<StageCounters>> RunContext::AllCounters() const {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<StageCounters>> all;
  for (const auto& entry : counters_) all.push_back(entry.second);
  return all;
}

void RunContext::AddIgnored(std::string what) {
  MutexLock lock(mutex_);
  ignored_.Add(std::move(what));
}

SkippedRecords RunContext::Ignored() const {
  MutexLock lock(mutex_);
  return ignored_;
}

void RunContext::AddDecision(std::string text) {
  constexpr size_t kKept = 100;
  MutexLock lock(mutex_);
  if (decisions_.size() == kKept) decisions_.pop_front();
  decisions_.push_back(std::move(text));
}

std::vector<std::string> RunContext::Decisions() const {
  MutexLock lock(mutex_);
  return {decisions_.begin(), decisions_.end()};
}

}  // namespace shardfeed
