#include "io/engine_choice.h"

#include <cstdlib>

#include "fmt/format.h"
#include "io/mmap_engine.h"
#include "io/thread_engine.h"
#include "io/uring_engine.h"

namespace shardfeed {

absl::StatusOr<EngineKind> ParseEngineKind(std::string_view name) {
  if (name == "auto") return EngineKind::kAuto;
  if (name == "uring") return EngineKind::kUring;
  if (name == "threads") return EngineKind::kThreads;
  if (name == "mmap") return EngineKind::kMmap;
  return absl::InvalidArgumentError(
      fmt::format("expected the engine auto, uring, threads or mmap, got '{}'", name));
}

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const EngineOptions& given) {
  EngineOptions options = given;
  if (options.pool == nullptr) options.pool = BufferPool::Create(64 << 20);
  if (options.depth < 1) options.depth = 1;
  std::string reason;
  bool forced = options.kind != EngineKind::kAuto;
  if (!forced) {
    const char* wanted = std::getenv("SHARDFEED_IO");
    if (wanted != nullptr && *wanted != '\0') {
      absl::StatusOr<EngineKind> kind = ParseEngineKind(wanted);
      if (!kind.ok()) {
        return absl::InvalidArgumentError(fmt::format("environment variable SHARDFEED_IO: {}",
                                                      std::string(kind.status().message())));
      }
      options.kind = *kind;
      if (*kind != EngineKind::kAuto) reason = fmt::format("SHARDFEED_IO={}", wanted);
    }
  }
  switch (options.kind) {
    case EngineKind::kMmap:
      return MakeMmapEngine(reason);
    case EngineKind::kThreads:
      return MakeThreadEngine(options, reason);
    case EngineKind::kUring:
      // An explicit request for the ring is honored even for cached files.
      return MakeUringEngine(options, reason);
    case EngineKind::kAuto:
      break;
  }
  if (options.inline_reads) return MakeThreadEngine(options, "");
  absl::StatusOr<std::unique_ptr<Engine>> uring = MakeUringEngine(options, "");
  if (uring.ok()) return uring;
  return MakeThreadEngine(options, std::string(uring.status().message()));
}

}  // namespace shardfeed
