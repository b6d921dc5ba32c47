#include <utility>

#include "fmt/format.h"
#include "shard/manifest/manifest.h"
#include "shard/writing/writer.h"
#include "shardfeed/spec.h"
#include "shardfeed/writer.h"

namespace shardfeed {

absl::StatusOr<std::unique_ptr<Writer>> Writer::Create(const std::string& spec,
                                                       const WriterOptions& options) {
  const absl::StatusOr<OutputSpec> output = ParseOutputSpec(spec);
  if (!output.ok()) return output.status();
  if (!output->count) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the number of shards is missing; write {}@16, for example", spec, spec));
  }
  absl::StatusOr<std::unique_ptr<DatasetWriter>> writer =
      DatasetWriter::Create(*output, {.encode = options.encode,
                                      .threads = options.threads,
                                      .overwrite = options.overwrite,
                                      .sync = options.sync});
  if (!writer.ok()) return writer.status();
  return std::unique_ptr<Writer>(new Writer(*std::move(writer), options.made_by));
}

Writer::Writer(std::unique_ptr<DatasetWriter> writer, std::map<std::string, std::string> made_by)
    : writer_(std::move(writer)), made_by_(std::move(made_by)) {}
Writer::~Writer() = default;

absl::Status Writer::Write(std::string_view record) { return writer_->Write(record); }

absl::StatusOr<WriteSummary> Writer::Finish() {
  const absl::StatusOr<Manifest> manifest = writer_->Finish({.made_by = made_by_});
  if (!manifest.ok()) return manifest.status();
  return WriteSummary{manifest->num_records(), manifest->num_bytes()};
}

}  // namespace shardfeed
