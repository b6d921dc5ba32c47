#include "reader/shards/lazy_shard_table.h"

#include <unistd.h>

#include <utility>

#include "base/mutex.h"
#include "base/work_stop.h"
#include "io/thread.h"

namespace shardfeed {

LazyShardTable::LazyShardTable(ShardSet set, ShardTableOptions options)
    : set_(std::move(set)),
      options_(std::move(options)),
      num_shards_(set_.paths.size()),
      making_(new Making(::getpid())) {}

LazyShardTable::LazyShardTable(std::shared_ptr<const ShardTable> table)
    : LazyShardTable(ShardSet(), ShardTableOptions()) {
  num_shards_ = table->num_shards();
  making_.load()->table = std::move(table);
  making_.load()->made = true;
}

LazyShardTable::~LazyShardTable() { delete making_.load(); }

absl::StatusOr<std::shared_ptr<LazyShardTable>> LazyShardTable::Open(ShardSet set,
                                                                     ShardTableOptions options) {
  options.stop = {};
  options.build_indexes = false;
  absl::StatusOr<std::shared_ptr<const ShardTable>> table = ShardTable::Open(set, options);
  if (!table.ok() && !absl::IsNotFound(table.status())) return table.status();
  options.build_indexes = true;
  std::shared_ptr<LazyShardTable> lazy(new LazyShardTable(std::move(set), std::move(options)));
  if (table.ok()) {
    lazy->making_.load()->table = *std::move(table);
    lazy->making_.load()->made = true;
  }
  return lazy;
}

absl::StatusOr<std::shared_ptr<const ShardTable>> LazyShardTable::Get(std::stop_token stop) const {
  Making* making = making_.load();
  if (!making->made && making->process != ::getpid()) {
    // A thread that makes it does not exist in this process, so the old object is abandoned.
    auto fresh = std::make_unique<Making>(::getpid());
    if (making_.compare_exchange_strong(making, fresh.get())) making = fresh.release();
  }
  if (making->made) return making->table;
  const std::thread::id self = std::this_thread::get_id();
  MutexLock lock(making->mutex);
  // A thread that runs signal handlers goes on only after them, and they may use this object.
  const auto idle = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(making->mutex) {
    return making->maker == std::thread::id() || SignalHandling::Pauses(making->maker);
  };
  const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(making->mutex) {
    return idle() || stop.stop_requested();
  };
  if (!AwaitWanted(making->changed, lock, ready) || !idle()) {
    return absl::CancelledError("interrupted");
  }
  if (making->made) return making->table;
  making->maker = self;
  lock.Unlock();
  ShardTableOptions opening = options_;
  opening.stop = stop;
  absl::StatusOr<std::shared_ptr<const ShardTable>> table;
  const absl::Status thrown = CatchAll([&] { table = ShardTable::Open(set_, opening); });
  lock.Lock();
  if (making->maker == self) {
    making->maker = std::thread::id();
    making->changed.NotifyAll();
  }
  // Another thread, or a signal handler, may have made it meanwhile.
  if (making->made) return making->table;
  if (!thrown.ok()) return thrown;
  if (absl::IsCancelled(table.status())) return table;
  making->table = std::move(table);
  making->made = true;
  return making->table;
}

}  // namespace shardfeed
