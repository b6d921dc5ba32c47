#include "shardfeed/options.h"

namespace shardfeed {

std::string_view CompressionName(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "none";
    case Compression::kGzip:
      return "gzip";
    case Compression::kZlib:
      return "zlib";
    case Compression::kSnappy:
      return "snappy";
  }
  return "unknown";
}

std::optional<Compression> ParseCompression(std::string_view name) {
  for (Compression c :
       {Compression::kNone, Compression::kGzip, Compression::kZlib, Compression::kSnappy}) {
    if (name == CompressionName(c)) return c;
  }
  return std::nullopt;
}

}  // namespace shardfeed
