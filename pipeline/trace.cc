#include "pipeline/trace.h"

#include <unistd.h>

#include "fmt/format.h"
#include "io/output_file.h"

namespace shardfeed {

void Trace::Add(const std::string& name, uint64_t begin_ns, uint64_t end_ns, uint64_t rows) {
  constexpr size_t kMaxEvents = 1'000'000;
  const auto thread = static_cast<uint64_t>(::gettid());
  std::lock_guard<std::mutex> lock(mutex_);
  if (events_.size() == kMaxEvents) return;
  events_.push_back({&*names_.insert(name).first, thread, begin_ns, end_ns, rows});
}

absl::Status Trace::Write(const std::string& path) const {
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  std::lock_guard<std::mutex> lock(mutex_);
  std::string text = "{\"traceEvents\":[\n";
  absl::Status status;
  for (size_t i = 0; i < events_.size() && status.ok(); ++i) {
    const Event& e = events_[i];
    text += fmt::format(
        "{}{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{}.{:03},\"dur\":{}.{:03},"
        "\"args\":{{\"rows\":{}}}}}",
        i > 0 ? ",\n" : "", *e.name, e.thread, e.begin_ns / 1000, e.begin_ns % 1000,
        (e.end_ns - e.begin_ns) / 1000, (e.end_ns - e.begin_ns) % 1000, e.rows);
    if (text.size() < (1 << 20)) continue;
    status = (*file)->Append(text);
    text.clear();
  }
  text += "\n]}\n";
  if (status.ok()) status = (*file)->Append(text);
  return status.ok() ? (*file)->Close() : status;
}

}  // namespace shardfeed
