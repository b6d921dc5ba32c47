// cache: what is in a cache on disk, and how to make it smaller.

#include <algorithm>
#include <ctime>
#include <map>
#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/flags/common_flags.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "net/block_file.h"
#include "net/cache_folder.h"
#include "nlohmann/json.hpp"

namespace shardfeed {
namespace {

struct CacheFlags {
  std::string folder;
  std::string size;
  bool objects = false;
};

// "3 min ago", by whole units.
std::string FormatAge(std::time_t then) {
  const auto seconds = std::max<int64_t>(0, std::time(nullptr) - then);
  if (seconds < 120) return fmt::format("{} s ago", seconds);
  if (seconds < 7200) return fmt::format("{} min ago", seconds / 60);
  if (seconds < 172'800) return fmt::format("{} h ago", seconds / 3600);
  return fmt::format("{} days ago", seconds / 86'400);
}

void Print(const nlohmann::ordered_json& json) {
  fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
}

int List(const CacheFlags& flags, const CommandOptions& options) {
  const absl::StatusOr<OpenedCacheFolder> opened = OpenCacheFolder(flags.folder, /*create=*/false);
  if (!opened.ok()) return ReportError(opened.status());
  const absl::StatusOr<CacheListing> listing = CacheFolder(*opened).List();
  if (!listing.ok()) return ReportError(listing.status());
  struct Dataset {
    uint64_t objects = 0;
    uint64_t blocks = 0;
    uint64_t bytes = 0;
    std::time_t used = 0;
    bool in_use = false;
  };
  std::map<std::string, Dataset> datasets;
  for (const CacheEntry& entry : listing->entries) {
    Dataset& dataset = datasets[entry.dataset];
    ++dataset.objects;
    dataset.blocks += entry.blocks;
    dataset.bytes += entry.bytes;
    dataset.used = std::max(dataset.used, entry.used);
    dataset.in_use = dataset.in_use || entry.in_use;
  }
  if (options.json) {
    nlohmann::ordered_json json = {{"cache", flags.folder},
                                   {"bytes", listing->bytes},
                                   {"damaged_files", listing->damaged_files},
                                   {"datasets", nlohmann::ordered_json::array()}};
    for (const auto& [name, dataset] : datasets) {
      nlohmann::ordered_json objects = nlohmann::ordered_json::array();
      for (const CacheEntry& entry : listing->entries) {
        if (entry.dataset != name) continue;
        objects.push_back({{"path", entry.path},
                           {"version", entry.version},
                           {"blocks", entry.blocks},
                           {"bytes", entry.bytes},
                           {"object_bytes", entry.object_bytes}});
      }
      json["datasets"].push_back({{"dataset", name},
                                  {"bytes", dataset.bytes},
                                  {"blocks", dataset.blocks},
                                  {"used", dataset.used},
                                  {"in_use", dataset.in_use},
                                  {"objects", std::move(objects)}});
    }
    Print(json);
    return kExitDone;
  }
  if (options.quiet) return kExitDone;
  for (const auto& [name, dataset] : datasets) {
    fmt::print("{:>10}  {}  {} objects, {}\n", FormatSize(dataset.bytes), OneLine(name),
               FormatCount(dataset.objects),
               dataset.in_use ? "in use" : "used " + FormatAge(dataset.used));
    if (!flags.objects) continue;
    for (const CacheEntry& entry : listing->entries) {
      if (entry.dataset != name) continue;
      fmt::print("{:>10}    {} {}: {} of {} blocks\n", FormatSize(entry.bytes), OneLine(entry.path),
                 OneLine(entry.version), entry.blocks, BlockKey::NumBlocks(entry.object_bytes));
    }
  }
  fmt::print("{:>10}  in all\n", FormatSize(listing->bytes));
  if (listing->damaged_files > 0) {
    fmt::print("{} files are damaged; the next reader fetches them again\n",
               FormatCount(listing->damaged_files));
  }
  return kExitDone;
}

int Trim(const CacheFlags& flags, const CommandOptions& options) {
  const std::optional<uint64_t> size = ParseSize(flags.size);
  if (!size) {
    return ReportError(absl::InvalidArgumentError(
        fmt::format("--cache-size '{}': expected a size such as 200GB", flags.size)));
  }
  const absl::StatusOr<OpenedCacheFolder> opened = OpenCacheFolder(flags.folder, /*create=*/false);
  if (!opened.ok()) return ReportError(opened.status());
  const absl::StatusOr<uint64_t> left = CacheFolder(*opened).Trim(*size);
  if (!left.ok()) return ReportError(left.status());
  if (options.json) {
    Print({{"cache", flags.folder}, {"bytes", *left}});
  } else if (!options.quiet) {
    fmt::print("{} are left{}\n", FormatSize(*left),
               *left > *size ? ": datasets that are being read stay" : "");
  }
  return kExitDone;
}

int Clear(const CacheFlags& flags, const CommandOptions& options) {
  const absl::StatusOr<OpenedCacheFolder> opened = OpenCacheFolder(flags.folder, /*create=*/false);
  if (!opened.ok()) return ReportError(opened.status());
  const absl::StatusOr<uint64_t> removed = CacheFolder(*opened).Clear();
  if (!removed.ok()) return ReportError(removed.status());
  if (options.json) {
    Print({{"cache", flags.folder}, {"removed_bytes", *removed}});
  } else if (!options.quiet) {
    fmt::print("{} removed\n", FormatSize(*removed));
  }
  return kExitDone;
}

}  // namespace

void AddCacheCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* command = app.add_subcommand(
      "cache", "List what is in a cache of datasets in stores, or make it smaller");
  command->require_subcommand(1);
  AddCommonOptions(*command, options);
  auto flags = std::make_shared<CacheFlags>();
  const auto add = [&](const char* name, const char* description,
                       int (*run)(const CacheFlags&, const CommandOptions&)) {
    CLI::App* sub = command->add_subcommand(name, description);
    sub->add_option("DIR", flags->folder, "folder of the cache, as given to --cache")->required();
    AddCommonOptions(*sub, options);
    sub->callback([flags, run, &options, exit] { *exit = run(*flags, options); });
    return sub;
  };
  CLI::App* ls = add("ls", "List datasets, with their sizes and when they were last used", &List);
  ls->add_flag("--objects", flags->objects, "list each object, too");
  ls->footer("Example:\n  shardfeed cache ls /scratch/cache --objects\n");
  CLI::App* trim =
      add("trim", "Remove what has been unused for longest until the cache is small enough", &Trim);
  trim->add_option("--cache-size", flags->size, "maximum size of what is left, such as 200GB")
      ->required()
      ->type_name("SIZE");
  trim->footer(
      "Datasets that are being read are kept.\n\n"
      "Example:\n  shardfeed cache trim /scratch/cache --cache-size 200GB\n");
  add("clear", "Remove everything; programs that read through the cache continue", &Clear)
      ->footer("Example:\n  shardfeed cache clear /scratch/cache\n");
  command->footer(
      "Commands fill a cache with --cache DIR, and Python with sf.read(..., cache=DIR).\n\n"
      "Examples:\n"
      "  shardfeed bench s3://bucket/train@64 --cache /scratch/cache --cache-size 200GB\n"
      "  shardfeed cache ls /scratch/cache\n");
}

}  // namespace shardfeed
