#include "pipeline/stages/trace.h"

#include <unistd.h>

#include <map>
#include <utility>

#include "base/mutex.h"
#include "fmt/format.h"
#include "io/output_file.h"

namespace shardfeed {

void Trace::Add(const std::string& name, uint64_t begin_ns, uint64_t end_ns, uint64_t rows) {
  Add(name, {nullptr, static_cast<uint64_t>(::gettid()), begin_ns, end_ns, rows, false});
}

void Trace::AddLevel(const std::string& name, uint64_t at_ns, uint64_t batches) {
  Add(name, {nullptr, 0, at_ns, at_ns, batches, true});
}

void Trace::Add(const std::string& name, Event event) {
  constexpr size_t kMaxEvents = 1'000'000;
  MutexLock lock(mutex_);
  if (events_.size() == kMaxEvents) return;
  event.name = &*names_.insert(name).first;
  events_.push_back(event);
}

absl::Status Trace::Write(const std::string& path) const {
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  MutexLock lock(mutex_);
  std::string text = "{\"traceEvents\":[\n";
  absl::Status status;
  // A thread is called by what it did first.
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
