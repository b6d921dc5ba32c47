#include "cli/flags/cache_flags.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "net/block_cache.h"

namespace shardfeed {
namespace {

absl::Status StartCache(const CommandOptions& options) {
  if (options.cache.empty()) {
    if (options.cache_size.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("--cache-size: there is no cache; add --cache DIR");
  }
  std::optional<uint64_t> max_bytes;
  if (!options.cache_size.empty()) {
    max_bytes = ParseSize(options.cache_size);
    if (!max_bytes || *max_bytes == 0) {
      return absl::InvalidArgumentError(
          fmt::format("--cache-size '{}': expected a size such as 200GB", options.cache_size));
    }
  }
  absl::StatusOr<std::shared_ptr<BlockCache>> cache = BlockCache::Open(options.cache, max_bytes);
  if (!cache.ok()) return cache.status();
  // To the end of the process.
  static auto* const serving = new std::shared_ptr<const void>();
  *serving = BlockCache::Serve(*std::move(cache), {});
  return absl::OkStatus();
}

}  // namespace

void AddCacheOptions(CLI::App& command, CommandOptions& options) {
  command
      .add_option("--cache", options.cache,
                  "keep what is read from stores in this folder, for this and other processes; see "
                  "'shardfeed cache'")
      ->type_name("DIR");
  command
      .add_option(
          "--cache-size", options.cache_size,
          "maximum size of the cache, such as 200GB; default: the size of the disk, less 5 %")
      ->type_name("SIZE");
  command.parse_complete_callback([&options] {
    const absl::Status status = StartCache(options);
    if (!status.ok()) throw CLI::RuntimeError(ReportError(status));
  });
}

void PrintCacheUse(const CommandOptions& options) {
  if (options.cache.empty()) return;
  const BlockCacheStats stats = GetBlockCacheStats();
  // What was fetched is read from it as well, but saves nothing.
  fmt::print(
      "cache: saved {}: {} read from it in {} reads, {} fetched into it; {} blocks were not there, "
      "of which {} were fetched into it and {} by other processes; {} were damaged\n",
      FormatSize(stats.hit_bytes - std::min(stats.hit_bytes, stats.stored_bytes)),
      FormatSize(stats.hit_bytes), FormatCount(stats.hits), FormatSize(stats.stored_bytes),
      FormatCount(stats.misses), FormatCount(stats.stored), FormatCount(stats.waits),
      FormatCount(stats.damaged));
}

void NoteCache(const CommandOptions& options) {
  if (options.cache.empty() || options.quiet) return;
  const std::string trouble = GetBlockCacheStats().trouble;
  if (trouble.empty()) return;
  Say("note: the cache was not used for everything: " + trouble);
}

}  // namespace shardfeed
