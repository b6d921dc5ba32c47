#include "shard/index/length_column.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

constexpr std::string_view kMagic = "SFLENGT1";
// The offset of the columns and the magic. They also let a number of any width be loaded as eight
// bytes.
constexpr size_t kTrailerBytes = 16;
// The width and the size of the name.
constexpr size_t kColumnHeadBytes = 3;
constexpr size_t kMaxNameBytes = UINT16_MAX;

uint64_t MaskOf(size_t width) { return UINT64_MAX >> (64 - 8 * width); }

void AppendColumn(std::string_view name, const std::function<uint64_t(uint64_t)>& length,
                  uint64_t records, std::string* out) {
  uint64_t max = 0;
  for (uint64_t i = 0; i < records; ++i) max = std::max(max, length(i));
  const size_t width = std::max<size_t>(1, (std::bit_width(max) + 7) / 8);
  out->push_back(static_cast<char>(width));
  AppendLittleEndian(static_cast<uint16_t>(name.size()), out);
  *out += name;
  char bytes[8];
  for (uint64_t i = 0; i < records; ++i) {
    StoreLittleEndian(length(i), bytes);
    out->append(bytes, width);
  }
}

absl::Status CheckColumn(const NewLengthColumn& column, uint64_t records) {
  if (column.name.empty() || column.name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        fmt::format("the name of a length column has 1 to {} bytes, got {}", kMaxNameBytes,
                    column.name.size()));
  }
  if (column.lengths.size() != records) {
    return absl::InvalidArgumentError(
        fmt::format("length column '{}': got {} lengths for {} records", column.name,
                    column.lengths.size(), records));
  }
  uint64_t total = 0;
  for (const uint64_t length : column.lengths) {
    if (__builtin_add_overflow(total, length, &total)) {
      return absl::InvalidArgumentError(
          fmt::format("length column '{}': the sum of the lengths exceeds 64 bits", column.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<std::vector<LengthColumn>> ReadLengthColumns(std::string_view index, uint64_t begin,
                                                           uint64_t records) {
  std::vector<LengthColumn> columns;
  // An index without columns ends at `begin`, so its last bytes do not matter.
  if (begin > index.size() || index.size() - begin < kTrailerBytes || !index.ends_with(kMagic)) {
    return columns;
  }
  std::string_view rest = index.substr(0, index.size() - kTrailerBytes);
  const auto offset = LoadLittleEndian<uint64_t>(rest.data() + rest.size());
  if (offset < begin || offset > rest.size()) return std::nullopt;
  rest.remove_prefix(offset);
  while (!rest.empty()) {
    if (rest.size() < kColumnHeadBytes) return std::nullopt;
    LengthColumn column;
    column.width_ = static_cast<unsigned char>(rest[0]);
    const size_t name_bytes = LoadLittleEndian<uint16_t>(rest.data() + 1);
    rest.remove_prefix(kColumnHeadBytes);
    if (column.width_ < 1 || column.width_ > 8 || name_bytes == 0 || name_bytes > rest.size()) {
      return std::nullopt;
    }
    column.name_ = rest.substr(0, name_bytes);
    rest.remove_prefix(name_bytes);
    if (!columns.empty() && column.name_ <= columns.back().name_) return std::nullopt;
    if (records > rest.size() / column.width_) return std::nullopt;
    column.lengths_ = rest.data();
    rest.remove_prefix(records * column.width_);
    column.mask_ = MaskOf(column.width_);
    bool overflow = false;
    for (uint64_t i = 0; i < records; ++i) {
      const uint64_t length = column.At(i);
      column.max_ = std::max(column.max_, length);
      overflow |= __builtin_add_overflow(column.total_, length, &column.total_);
    }
    if (overflow) return std::nullopt;
    columns.push_back(column);
  }
  return columns;
}

absl::StatusOr<std::string> FormatLengthColumns(const std::vector<LengthColumn>& kept,
                                                absl::Span<const NewLengthColumn> columns,
                                                uint64_t begin, uint64_t records) {
  std::map<std::string_view, std::function<uint64_t(uint64_t)>> all;
  for (const NewLengthColumn& column : columns) {
    if (absl::Status status = CheckColumn(column, records); !status.ok()) return status;
    const auto length = [&column](uint64_t record) { return column.lengths[record]; };
    if (!all.emplace(column.name, length).second) {
      return absl::InvalidArgumentError(
          fmt::format("length column '{}' appears twice", column.name));
    }
  }
  for (const LengthColumn& column : kept) {
    all.emplace(column.name(), [&column](uint64_t record) { return column.At(record); });
  }
  std::string bytes;
  if (all.empty()) return bytes;
  for (const auto& [name, length] : all) AppendColumn(name, length, records, &bytes);
  AppendLittleEndian(begin, &bytes);
  bytes += kMagic;
  return bytes;
}

}  // namespace shardfeed
