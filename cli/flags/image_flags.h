// The flags of kinds of raw data whose records are images.

#ifndef SHARDFEED_CLI_FLAGS_IMAGE_FLAGS_H_
#define SHARDFEED_CLI_FLAGS_IMAGE_FLAGS_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "convert/features/image_rewriter.h"
#include "shard/declarations/named_manifest.h"

namespace shardfeed {

// The values of --jpeg and, for kinds that resize, of --resize-shorter and --quality. `fallback` is
// the mode if --jpeg is not given.
class ImageFlags {
 public:
  // Adds the flags to the command.
  ImageFlags(CLI::App& command, JpegMode fallback, bool resizes);

  StoredImageOptions options() const;

 private:
  JpegMode fallback_;
  std::string jpeg_;
  std::string shorter_;
  std::string quality_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_FLAGS_IMAGE_FLAGS_H_
