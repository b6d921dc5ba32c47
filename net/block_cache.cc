#include "net/block_cache.h"

#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "base/fork_count.h"
#include "base/mutex.h"
#include "fmt/format.h"
#include "io/buffer.h"
#include "io/thread.h"
#include "net/transfers.h"

namespace shardfeed {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How often to check whether another process has fetched a block.
constexpr milliseconds kFirstLook(1);
constexpr milliseconds kLongestLook(50);
// After an error, no blocks are cached for this long.
constexpr std::chrono::seconds kPause(30);

struct Counters {
  std::atomic<uint64_t> hits = 0;
  std::atomic<uint64_t> hit_bytes = 0;
  std::atomic<uint64_t> misses = 0;
  std::atomic<uint64_t> stored = 0;
  std::atomic<uint64_t> stored_bytes = 0;
  std::atomic<uint64_t> waits = 0;
  std::atomic<uint64_t> refused = 0;
  std::atomic<uint64_t> damaged = 0;
  Mutex mutex;
  std::string trouble ABSL_GUARDED_BY(mutex);
};
Counters& Counted() {
  static auto* const counters = new Counters();
  return *counters;
}

void TellTrouble(const absl::Status& status) {
  Counters& counters = Counted();
  MutexLock lock(counters.mutex);
  if (counters.trouble.empty()) counters.trouble = std::string(status.message());
}

// Whether it could be removed.
bool RemoveDamaged(CacheFolder& folder, const BlockName& name) {
  const absl::Status removed = folder.Remove(name);
  if (removed.ok()) {
    ++Counted().damaged;
  } else {
    TellTrouble(removed);
  }
  return removed.ok();
}

uint64_t HashOf(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr);
  uint64_t hash = 0;
  for (int i = 0; i < 8; ++i) hash = hash << 8 | digest[i];
  return hash;
}

// A URL's query may hold credentials, which a cache must not keep.
std::string WithoutQuery(std::string_view url) {
  const size_t query = url.find('?');
  if (query == url.npos) return std::string(url);
  return fmt::format("{}?{:016x}", url.substr(0, query), HashOf(url.substr(query)));
}

}  // namespace

BlockCacheStats GetBlockCacheStats() {
  Counters& counters = Counted();
  BlockCacheStats stats;
  stats.hits = counters.hits;
  stats.hit_bytes = counters.hit_bytes;
  stats.misses = counters.misses;
  stats.stored = counters.stored;
  stats.stored_bytes = counters.stored_bytes;
  stats.waits = counters.waits;
  stats.refused = counters.refused;
  stats.damaged = counters.damaged;
  MutexLock lock(counters.mutex);
  stats.trouble = counters.trouble;
  return stats;
}

// Blocks are fetched by one thread of the cache, which waits for no store: the HTTP client's thread
// hands it what has come. Never destroyed.
class BlockCache::Live {
 public:
  Live(const BlockCache* cache, uint64_t forks)
      : cache_(cache), forks_(forks), folder_(cache->opened_) {}

  CacheFolder& folder() { return folder_; }
  uint64_t forks() const { return forks_; }

  void Fetch(std::shared_ptr<const CachedObject> object, uint64_t block, ReadStore read,
             Fetched done) {
    const BlockName name = object->NameOf(block);
    {
      MutexLock lock(mutex_);
      auto& fetching = fetching_[name];
      if (fetching != nullptr) {
        fetching->waiting.push_back(std::move(done));
        return;
      }
      if (started_ || Start()) {
        fetching = std::make_shared<Fetching>();
        fetching->object = std::move(object);
        fetching->key = fetching->object->KeyOf(block);
        fetching->name = name;
        fetching->read = std::move(read);
        fetching->waiting.push_back(std::move(done));
        jobs_.push_back(fetching);
        work_.NotifyOne();
        return;
      }
      fetching_.erase(name);
    }
    done(absl::OkStatus(), false);
  }

 private:
  // A block on its way.
  struct Fetching {
    std::shared_ptr<const CachedObject> object;
    BlockKey key;
    BlockName name;
    ReadStore read;
    std::vector<Fetched> waiting;  // guarded by Live::mutex_
    // Used by the thread, and by the read between its begin and its end.
    bool arrived = false;
    absl::Status status;
    std::shared_ptr<Buffer> data;
    int fd = -1;
    Clock::time_point deadline;
  };

  bool Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    absl::StatusOr<std::thread> thread = StartThread([this] { Run(); });
    if (!thread.ok()) return false;
    thread->detach();
    started_ = true;
    return true;
  }

  void Run() {
    // What other processes fetch.
    std::vector<std::shared_ptr<Fetching>> elsewhere;
    milliseconds look = kFirstLook;
    while (true) {
      std::deque<std::shared_ptr<Fetching>> jobs;
      {
        MutexLock lock(mutex_);
        const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !jobs_.empty(); };
        if (elsewhere.empty()) {
          work_.Wait(lock, any);
        } else {
          work_.WaitFor(lock, look, any);
        }
        jobs.swap(jobs_);
      }
      for (const std::shared_ptr<Fetching>& job : jobs) {
        if (job->arrived) {
          Finish(job);
        } else if (!Begin(job)) {
          ++Counted().waits;
          job->deadline = Clock::now() + NetPatience();
          elsewhere.push_back(job);
          look = kFirstLook;
        }
      }
      if (!jobs.empty()) continue;
      look = std::min(kLongestLook, look * 2);
      std::erase_if(elsewhere, [this](const std::shared_ptr<Fetching>& job) {
        if (Begin(job)) return true;
        if (Clock::now() < job->deadline) return false;
        // The other process makes no progress; it may be stopped.
        End(job, absl::OkStatus(), false);
        return true;
      });
    }
  }

  // False: another process fetches it.
  bool Begin(const std::shared_ptr<Fetching>& job) {
    const Place place = Look(*job);
    if (place == Place::kBlock) {
      End(job, absl::OkStatus(), true);
      return true;
    }
    if (place == Place::kObstructed || !folder_.writable() || Clock::now() < paused_until_) {
      End(job, absl::OkStatus(), false);
      return true;
    }
    if (!folder_.TryLock(job->name)) return false;
    // It may have come just before.
    if (Look(*job) == Place::kBlock) {
      folder_.Unlock(job->name);
      End(job, absl::OkStatus(), true);
      return true;
    }
    const absl::StatusOr<std::optional<int>> reserved =
        folder_.Reserve(job->name, job->key.file_bytes(), cache_->max_bytes_);
    if (!reserved.ok()) Pause(reserved.status());
    if (!reserved.ok() || !*reserved) {
      if (reserved.ok()) ++Counted().refused;
      folder_.Unlock(job->name);
      End(job, absl::OkStatus(), false);
      return true;
    }
    job->fd = **reserved;
    const absl::Status allocated =
        CatchAll([&] { job->data = Buffer::Allocate(job->key.bytes()); });
    if (!allocated.ok()) {
      Drop(*job);
      End(job, absl::OkStatus(), false);
      return true;
    }
    job->read(job->key.begin(), {job->data->data(), job->key.bytes()},
              [this, job](absl::Status status) {
                MutexLock lock(mutex_);
                job->status = std::move(status);
                job->arrived = true;
                jobs_.push_back(job);
                work_.NotifyOne();
              });
    return true;
  }

  // What is at the path of a block. An obstruction, such as a folder that is not empty, affects
  // only that block.
  enum class Place { kEmpty, kBlock, kObstructed };
  Place Look(const Fetching& job) {
    const auto block = BlockFile::Open(folder_.PathOf(job.name), job.key);
    if (block.ok()) return Place::kBlock;
    if (!absl::IsDataLoss(block.status())) return Place::kEmpty;
    return RemoveDamaged(folder_, job.name) ? Place::kEmpty : Place::kObstructed;
  }

  // Handles the answer: the bytes, or the store's error.
  void Finish(const std::shared_ptr<Fetching>& job) {
    absl::Status status = std::move(job->status);
    if (!status.ok()) {
      Drop(*job);
      return End(job, status, false);
    }
    status = WriteBlock(job->fd, folder_.PathOf(job->name), job->key,
                        {job->data->data(), job->key.bytes()});
    if (!status.ok()) {
      Pause(status);
      Drop(*job);
      return End(job, absl::OkStatus(), false);
    }
    status = folder_.Keep(job->name, std::exchange(job->fd, -1), job->key.file_bytes());
    folder_.Unlock(job->name);
    if (!status.ok()) {
      Pause(status);
    } else {
      ++Counted().stored;
      Counted().stored_bytes += job->key.bytes();
    }
    End(job, absl::OkStatus(), status.ok());
  }

  void Drop(Fetching& job) {
    folder_.Discard(job.name, std::exchange(job.fd, -1), job.key.file_bytes());
    folder_.Unlock(job.name);
  }

  void Pause(const absl::Status& status) {
    TellTrouble(status);
    paused_until_ = Clock::now() + kPause;
  }

  void End(const std::shared_ptr<Fetching>& job, const absl::Status& status, bool kept) {
    job->data = nullptr;
    std::vector<Fetched> waiting;
    {
      MutexLock lock(mutex_);
      waiting.swap(job->waiting);
      fetching_.erase(job->name);
    }
    for (const Fetched& done : waiting) {
      // A status of its own: ThreadSanitizer does not see how Abseil counts who shares one.
      done(absl::Status(status.code(), std::string(status.message())), kept);
    }
  }

  const BlockCache* const cache_;
  const uint64_t forks_;
  CacheFolder folder_;
  Clock::time_point paused_until_;  // until when the thread pauses

  Mutex mutex_;
  CondVar work_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::shared_ptr<Fetching>> jobs_ ABSL_GUARDED_BY(mutex_);
  std::map<BlockName, std::shared_ptr<Fetching>> fetching_ ABSL_GUARDED_BY(mutex_);
};

BlockCache::BlockCache(OpenedCacheFolder opened) : opened_(std::move(opened)) {}

BlockCache::Live& BlockCache::live() const {
  Live* live = live_.load();
  while (live == nullptr || live->forks() != ForkCount()) {
    auto fresh = std::make_unique<Live>(this, ForkCount());
    if (live_.compare_exchange_strong(live, fresh.get())) return *fresh.release();
  }
  return *live;
}

namespace {

// What this process has open, and what it reads through it.
struct Known {
  Mutex mutex;
  // Never closed: see OpenedCacheFolder.
  std::map<std::pair<uint64_t, uint64_t>, std::shared_ptr<BlockCache>> caches
      ABSL_GUARDED_BY(mutex);
  struct Served {
    uint64_t number;
    std::shared_ptr<BlockCache> cache;
  };
  // By dataset; "" for all.
  std::map<std::string, std::vector<Served>, std::less<>> served ABSL_GUARDED_BY(mutex);
  uint64_t last_number ABSL_GUARDED_BY(mutex) = 0;

  static Known& Get() {
    static auto* const known = new Known();
    return *known;
  }
};

}  // namespace

absl::StatusOr<std::shared_ptr<BlockCache>> BlockCache::Open(const std::string& folder,
                                                             std::optional<uint64_t> max_bytes) {
  if (max_bytes && *max_bytes < kBlockHeaderBytes + kCacheBlockBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a cache of {} bytes has no room for a block, which takes {}", folder,
                    *max_bytes, kBlockHeaderBytes + kCacheBlockBytes));
  }
  Known& known = Known::Get();
  MutexLock lock(known.mutex);
  std::shared_ptr<BlockCache> cache;
  // Look the cache up first: closing a second descriptor of its file would drop this process's
  // locks.
  struct stat info;
  if (::stat(CacheStatePath(folder).c_str(), &info) == 0) {
    const auto it = known.caches.find({info.st_dev, info.st_ino});
    if (it != known.caches.end()) cache = it->second;
  }
  if (cache == nullptr) {
    absl::StatusOr<OpenedCacheFolder> opened = OpenCacheFolder(folder, /*create=*/true);
    if (!opened.ok()) return opened.status();
    cache.reset(new BlockCache(*opened));
    known.caches[{opened->device, opened->inode}] = cache;
  }
  cache->max_bytes_ = max_bytes.value_or(UINT64_MAX);
  if (max_bytes) {
    const absl::Status shrunk = cache->live().folder().Shrink(*max_bytes);
    if (!shrunk.ok()) TellTrouble(shrunk);
  }
  return cache;
}

std::shared_ptr<const void> BlockCache::Serve(std::shared_ptr<BlockCache> cache,
                                              const std::vector<std::string>& paths) {
  std::vector<std::string> datasets;
  for (const std::string& path : paths) {
    std::string dataset = CachedDatasetOf(path);
    if (datasets.empty() || datasets.back() != dataset) datasets.push_back(std::move(dataset));
  }
  std::sort(datasets.begin(), datasets.end());
  datasets.erase(std::unique(datasets.begin(), datasets.end()), datasets.end());
  if (paths.empty()) datasets.emplace_back();
  Known& known = Known::Get();
  MutexLock lock(known.mutex);
  const uint64_t number = ++known.last_number;
  for (const std::string& dataset : datasets) known.served[dataset].push_back({number, cache});
  return {nullptr, [number, datasets](const void*) {
            Known& known = Known::Get();
            MutexLock lock(known.mutex);
            for (const std::string& dataset : datasets) {
              const auto it = known.served.find(dataset);
              std::erase_if(it->second, [&](const auto& s) { return s.number == number; });
              if (it->second.empty()) known.served.erase(it);
            }
          }};
}

std::shared_ptr<BlockCache> BlockCache::For(std::string_view path) {
  Known& known = Known::Get();
  MutexLock lock(known.mutex);
  if (known.served.empty()) return nullptr;
  auto it = known.served.find(CachedDatasetOf(path));
  if (it == known.served.end()) it = known.served.find("");
  return it == known.served.end() ? nullptr : it->second.back().cache;
}

std::shared_ptr<const CachedObject> BlockCache::Object(const ObjectInfo& info, const Store& store) {
  if (info.version.empty() || info.size == 0 || info.size > INT64_MAX) return nullptr;
  const absl::StatusOr<HttpRequest> request = store.Request("GET", info.path);
  if (!request.ok()) return nullptr;
  CachedVersion of;
  of.address = request->url.substr(0, request->url.find('?'));
  of.path = WithoutQuery(info.path);
  of.version = info.version;
  std::string text = of.Text();
  const auto lines = std::count(text.begin(), text.end(), '\n');
  if (text.size() > BlockKey::kMaxBytes || lines != 2) return nullptr;
  std::shared_ptr<CachedObject> object(new CachedObject());
  object->cache_ = shared_from_this();
  object->size_ = info.size;
  object->dataset_ =
      HashOf(fmt::format("{}\n{}", CachedDatasetOf(of.address), CachedDatasetOf(of.path)));
  object->object_ = HashOf(fmt::format("{}\n{}", of.address, of.path));
  object->version_ = HashOf(fmt::format("{}\n{}", of.version, info.size));
  object->text_ = std::move(text);
  object->forks_ = ForkCount();
  live().folder().Use(object->dataset_, object->object_, object->version_);
  return object;
}

CachedObject::~CachedObject() {
  if (cache_ == nullptr || forks_ != ForkCount()) return;
  cache_->live().folder().Release(dataset_, object_, version_);
}

bool BlockCache::Has(const CachedObject& object, uint64_t block) const {
  return ::access(live().folder().PathOf(object.NameOf(block)).c_str(), F_OK) == 0;
}

absl::Status BlockCache::Read(const CachedObject& object, uint64_t block, uint64_t offset,
                              absl::Span<char> dst, BlockCheck check) {
  CacheFolder& folder = live().folder();
  const BlockName name = object.NameOf(block);
  const auto file = BlockFile::Open(folder.PathOf(name), object.KeyOf(block));
  absl::Status status = file.status();
  if (status.ok()) status = (*file)->ReadAt(offset, dst, check);
  Counters& counters = Counted();
  if (status.ok()) {
    ++counters.hits;
    counters.hit_bytes += dst.size();
    return status;
  }
  if (absl::IsNotFound(status)) return status;
  if (absl::IsDataLoss(status)) {
    RemoveDamaged(folder, name);
  } else {
    TellTrouble(status);
  }
  return absl::NotFoundError(std::string(status.message()));
}

void BlockCache::Fetch(std::shared_ptr<const CachedObject> object, uint64_t block, ReadStore read,
                       Fetched done) {
  ++Counted().misses;
  live().Fetch(std::move(object), block, std::move(read), std::move(done));
}

}  // namespace shardfeed
