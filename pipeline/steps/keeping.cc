#include "pipeline/steps/keeping.h"

#include <utility>

#include "fmt/format.h"
#include "net/url.h"
#include "pipeline/stages/cache.h"

namespace shardfeed {

absl::Status CheckLocal(std::string_view what, const std::string& path) {
  // s3:/bucket is what is left of a URL, and no folder either.
  if (!SchemeOf(path) && CheckSlashes(path).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}, not the URL '{}'", what, ShownUrl(path)));
}

StageWork KeepElements(Keeping keeping) {
  return {[keeping = std::move(keeping), key = std::make_shared<char>()](
              const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<Stage>> {
    const auto cache = inputs.context->Kept<ElementCache>(key.get());
    if (keeping.stored && cache->stored() == nullptr) {
      auto stored = keeping.stored();
      if (!stored.ok()) return stored.status();
      cache->Publish(*std::move(stored));
    }
    // Always the input's first epoch, so that a run that resumes in a later one stores the same.
    return MakeCacheStage({[make = inputs.factories[0]] { return make(0); }, keeping.writer}, cache,
                          inputs.epoch);
  }};
}

}  // namespace shardfeed
