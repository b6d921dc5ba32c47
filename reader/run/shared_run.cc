#include "reader/run/shared_run.h"

#include <algorithm>
#include <atomic>
#include <compare>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/work_stop.h"
#include "fmt/format.h"
#include "reader/plan/read_plan.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

std::atomic<uint64_t> num_readers = 0;

// A position in the sequence of epochs.
struct At {
  uint64_t epoch = 0;
  uint64_t position = 0;

  auto operator<=>(const At&) const = default;
};

At BeginOf(const ReadBlock& block) { return {block.epoch, block.position}; }
At EndOf(const ReadBlock& block) { return {block.epoch, block.position + block.records.size()}; }

uint64_t BytesOf(const ReadBlock& block) {
  uint64_t bytes = 0;
  for (std::string_view record : block.records) bytes += record.size();
  return bytes;
}

// The run of all readers, and the blocks that some of them have not taken yet.
class Group {
 public:
  struct Member {
    uint64_t next = 0;  // number of the next block to take
    bool lost = false;
  };

  Group(std::unique_ptr<ReadRun> run, const ReadPlace& place, uint64_t readers,
        uint64_t max_held_bytes)
      : run_(std::move(run)),
        first_epoch_(place.epoch),
        from_(place.from),
        max_held_bytes_(max_held_bytes),
        begin_{place.epoch, place.position},
        absent_(readers) {}

  // Returns null if what follows `at` is not kept any more, or if the epoch is divided differently.
  std::unique_ptr<Member> Join(const ReadPlace& place, At at) {
    MutexLock lock(mutex_);
    const At begin = blocks_.empty() ? begin_ : BeginOf(*blocks_.front());
    if (broken_ || at < begin) return nullptr;
    if (place.epoch < first_epoch_ || place.from != (place.epoch == first_epoch_ ? from_ : 0))
      return nullptr;
    const auto found = std::find_if(blocks_.begin(), blocks_.end(),
                                    [&](const auto& block) { return at < EndOf(*block); });
    auto member = std::make_unique<Member>();
    member->next = first_ + static_cast<uint64_t>(found - blocks_.begin());
    members_.push_back(member.get());
    if (absent_ > 0) --absent_;
    return member;
  }

  void Leave(Member* member) {
    std::vector<std::shared_ptr<const ReadBlock>> dropped;
    MutexLock lock(mutex_);
    std::erase(members_, member);
    DropTaken(&dropped);
    lock.Unlock();
  }

  // Sets `*block` to the member's next block, or to null at the end. Returns false if the member is
  // lost.
  bool Take(Member* member, std::shared_ptr<const ReadBlock>* block) {
    // Released without the mutex.
    std::vector<std::shared_ptr<const ReadBlock>> dropped;
    MutexLock lock(mutex_);
    while (true) {
      if (member->lost) return false;
      if (member->next < first_ + blocks_.size()) {
        *block = blocks_[member->next - first_];
        ++member->next;
        DropTaken(&dropped);
        lock.Unlock();
        return true;
      }
      if (broken_) return false;
      if (ended_) {
        *block = nullptr;
        return true;
      }
      if (reading_) {
        const auto changed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return !reading_ || member->lost;
        };
        // One that is not needed any more ends when it begins to read alone.
        if (!AwaitWanted(changed_, lock, changed)) return false;
        continue;
      }
      reading_ = true;
      lock.Unlock();
      auto read = std::make_shared<ReadBlock>();
      const absl::Status status = run_->Next(read.get());
      const uint64_t bytes = status.ok() ? BytesOf(*read) : 0;
      lock.Lock();
      reading_ = false;
      if (absl::IsCancelled(status)) {
        // This member is not needed any more; another one reads what it did not wait for.
        changed_.NotifyAll();
        return false;
      }
      if (!status.ok()) {
        broken_ = true;  // each member finds out alone whether the error concerns it
      } else if (read->records.empty()) {
        ended_ = true;
      } else {
        begin_ = EndOf(*read);
        held_bytes_ += bytes;
        blocks_.push_back(std::move(read));
        LimitHeld(&dropped);
      }
      changed_.NotifyAll();
    }
  }

  ReaderStats stats() const { return run_->stats(); }

 private:
  void DropFirst(std::vector<std::shared_ptr<const ReadBlock>>* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    held_bytes_ -= BytesOf(*blocks_.front());
    dropped->push_back(std::move(blocks_.front()));
    blocks_.pop_front();
    ++first_;
  }

  void DropTaken(std::vector<std::shared_ptr<const ReadBlock>>* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto has_first = [this](const Member* m) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return m->lost || m->next > first_;
    };
    while (absent_ == 0 && !blocks_.empty() &&
           std::all_of(members_.begin(), members_.end(), has_first)) {
      DropFirst(dropped);
    }
  }

  // Drops the members that are furthest behind once too much is held for them.
  void LimitHeld(std::vector<std::shared_ptr<const ReadBlock>>* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (held_bytes_ > max_held_bytes_ && blocks_.size() > 1) {
      absent_ = 0;
      for (Member* member : members_) member->lost |= member->next == first_;
      DropFirst(dropped);
    }
  }

  const std::unique_ptr<ReadRun> run_;
  const uint64_t first_epoch_;
  const uint64_t from_;
  const uint64_t max_held_bytes_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<const ReadBlock>> blocks_ ABSL_GUARDED_BY(mutex_);
  uint64_t first_ ABSL_GUARDED_BY(mutex_) = 0;  // number of blocks_.front()
  uint64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  At begin_ ABSL_GUARDED_BY(mutex_);  // where the next block begins
  std::vector<Member*> members_ ABSL_GUARDED_BY(mutex_);
  uint64_t absent_ ABSL_GUARDED_BY(mutex_);       // readers that have yet to join
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // a member is in run_->Next
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
};

struct Groups {
  Mutex mutex;
  std::map<std::string, std::weak_ptr<Group>> by_key ABSL_GUARDED_BY(mutex);
};

// Leaked, since threads may read while the process ends.
Groups& AllGroups() {
  static auto* groups = new Groups();
  return *groups;
}

class MemberRun : public SharedRun {
 public:
  MemberRun(std::shared_ptr<Group> group, std::unique_ptr<Group::Member> member, bool first,
            const ReaderOptions& options, const ReadPlace& place, At at)
      : group_(std::move(group)),
        member_(std::move(member)),
        first_(first),
        rank_(options.rank),
        world_(options.world),
        place_(place),
        at_(at) {}

  ~MemberRun() override { group_->Leave(member_.get()); }

  absl::Status Next(ReadBlock* out) override {
    while (true) {
      std::shared_ptr<const ReadBlock> block;
      if (!group_->Take(member_.get(), &block)) {
        return absl::AbortedError("this reader must continue alone");
      }
      if (block == nullptr) {
        *out = ReadBlock();
        return absl::OkStatus();
      }
      Cut(std::move(block), out);
      if (out->records.empty()) continue;
      MutexLock lock(mutex_);
      records_ += out->records.size();
      for (std::string_view record : out->records) bytes_ += kFrameBytes + record.size();
      return absl::OkStatus();
    }
  }

  // The first member counts what is read for all.
  ReaderStats stats() const override {
    ReaderStats stats = first_ ? group_->stats() : ReaderStats();
    MutexLock lock(mutex_);
    stats.records = records_;
    stats.bytes = bytes_;
    return stats;
  }

 private:
  // Sets `*out` to the records of this rank.
  void Cut(std::shared_ptr<const ReadBlock> block, ReadBlock* out) {
    *out = ReadBlock();
    const size_t n = block->records.size();
    const uint64_t from = block->epoch == place_.epoch ? place_.from : 0;
    size_t first = (rank_ + world_ - (block->position - from) % world_) % world_;
    while (first < n && At{block->epoch, block->position + first} < at_) first += world_;
    out->epoch = block->epoch;
    out->position = out->place = block->position + first;
    out->stride = world_;
    if (first >= n) return;
    out->records.reserve((n - first + world_ - 1) / world_);
    for (size_t i = first; i < n; i += world_) {
      out->records.push_back(block->records[i]);
      if (i >= n - block->padded) ++out->padded;
    }
    out->buffers.push_back(std::move(block));
  }

  const std::shared_ptr<Group> group_;
  const std::unique_ptr<Group::Member> member_;
  const bool first_;
  const uint64_t rank_;
  const uint64_t world_;
  const ReadPlace place_;
  const At at_;
  mutable Mutex mutex_;
  uint64_t records_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Whether a run for all ranks reads no more than is needed.
bool Overlaps(const ShardTable& table, const Order& order, const ReaderOptions& options,
              uint64_t readers) {
  if (options.world == 1) return true;
  const bool shuffled = order.spec().kind == OrderSpec::Kind::kShuffle;
  if (shuffled && order.spec().lanes % options.world == 0) return false;  // each has whole lanes
  // If records are small, each rank reads those of the other ranks, too.
  return readers >= options.world ||
         (!shuffled && table.mean_bytes() * options.world <= kMergeGapBytes);
}

}  // namespace

void ShareReads(uint64_t readers) { num_readers = readers; }

std::unique_ptr<SharedRun> SharedRun::Join(const std::string& order_text,
                                           std::shared_ptr<const ShardTable> table,
                                           const ReaderOptions& options, const Selection& selection,
                                           std::shared_ptr<const Order> order,
                                           const ReadPlace& place, uint64_t position) {
  const uint64_t readers = num_readers;
  if (readers <= 1 || !options.deterministic || options.skip_damaged || options.leftover ||
      options.pack || options.block_records != 0 || !Overlaps(*table, *order, options, readers)) {
    return nullptr;
  }
  const std::string key = fmt::format(
      "{:016x} {} {} {} {} {} {}", table->fingerprint(), order_text, options.batch * options.world,
      static_cast<int>(options.end), options.epochs ? *options.epochs : UINT64_MAX,
      static_cast<int>(options.check_crc), static_cast<int>(options.io));
  const At at = {place.epoch, position};
  Groups& groups = AllGroups();
  MutexLock lock(groups.mutex);
  std::erase_if(groups.by_key, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<Group> group = groups.by_key[key].lock();
  const bool first = group == nullptr;
  if (first) {
    ReaderOptions all = options;
    all.rank = 0;
    all.world = 1;
    all.batch = options.batch * options.world;
    all.buffers = nullptr;
    all.threads = options.threads > 0 ? static_cast<int>(options.threads * readers) : 0;
    all.budget_bytes = options.budget_bytes * readers;
    ReadPlace begin = place;
    begin.position -= options.rank;
    begin.batch = all.batch;
    begin.world = 1;
    absl::StatusOr<std::unique_ptr<ReadRun>> run =
        ReadRun::Start(std::move(table), all, selection, std::move(order), /*pack=*/nullptr, begin,
                       begin.position);
    if (!run.ok()) return nullptr;  // the reader gets its own error
    group = std::make_shared<Group>(*std::move(run), begin, readers, all.budget_bytes / 2);
    groups.by_key[key] = group;
  }
  std::unique_ptr<Group::Member> member = group->Join(place, at);
  if (member == nullptr) return nullptr;
  return std::make_unique<MemberRun>(std::move(group), std::move(member), first, options, place,
                                     at);
}

}  // namespace shardfeed
