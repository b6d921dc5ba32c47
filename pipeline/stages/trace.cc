#include <unistd.h>

#include <map>
#include <set>
#include <utility>

#include "base/mutex.h"
#include "fmt/format.h"
#include "io/output_file.h"
#include "shardfeed/iterator.h"

namespace shardfeed {

class Trace::Events {
 public:
  struct Event {
    const std::string* name;
    uint64_t thread;
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t count;  // rows, or batches for a level
    bool level;
  };

  void Add(const std::string& name, Event event) {
    constexpr size_t kMaxEvents = 1'000'000;
    MutexLock lock(mutex_);
    if (events_.size() == kMaxEvents) return;
    event.name = &*names_.insert(name).first;
    events_.push_back(event);
  }
  absl::Status Write(const std::string& path) const;

 private:
  mutable Mutex mutex_;
  std::set<std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::vector<Event> events_ ABSL_GUARDED_BY(mutex_);
};

Trace::Trace() : events_(std::make_unique<Events>()) {}
Trace::~Trace() = default;

void Trace::Add(const std::string& name, uint64_t begin_ns, uint64_t end_ns, uint64_t rows) {
  events_->Add(name, {nullptr, static_cast<uint64_t>(::gettid()), begin_ns, end_ns, rows, false});
}

void Trace::AddLevel(const std::string& name, uint64_t at_ns, uint64_t batches) {
  events_->Add(name, {nullptr, 0, at_ns, at_ns, batches, true});
}

absl::Status Trace::Write(const std::string& path) const { return events_->Write(path); }

absl::Status Trace::Events::Write(const std::string& path) const {
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  MutexLock lock(mutex_);
  std::string text = "{\"traceEvents\":[\n";
  absl::Status status;
  // A thread is named after what it did first.
  std::map<uint64_t, const std::string*> threads;
  for (const Event& e : events_) {
    if (!e.level) threads.try_emplace(e.thread, e.name);
  }
  const char* separator = "";
  for (const auto& [thread, name] : threads) {
    text += fmt::format(
        "{}{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{},\"args\":{{\"name\":\"{}\"}"
        "}}}",
        std::exchange(separator, ",\n"), thread, *name);
  }
  for (size_t i = 0; i < events_.size() && status.ok(); ++i) {
    const Event& e = events_[i];
    if (e.level) {
      text += fmt::format(
          "{}{{\"name\":\"{} ahead\",\"ph\":\"C\",\"pid\":1,\"ts\":{}.{:03},"
          "\"args\":{{\"batches\":{}}}}}",
          std::exchange(separator, ",\n"), *e.name, e.begin_ns / 1000, e.begin_ns % 1000, e.count);
    } else {
      text += fmt::format(
          "{}{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{}.{:03},\"dur\":{}.{:03},"
          "\"args\":{{\"rows\":{}}}}}",
          std::exchange(separator, ",\n"), *e.name, e.thread, e.begin_ns / 1000, e.begin_ns % 1000,
          (e.end_ns - e.begin_ns) / 1000, (e.end_ns - e.begin_ns) % 1000, e.count);
    }
    if (text.size() < (1 << 20)) continue;
    status = (*file)->Append(text);
    text.clear();
  }
  text += "\n]}\n";
  if (status.ok()) status = (*file)->Append(text);
  return status.ok() ? (*file)->Close() : status;
}

}  // namespace shardfeed
