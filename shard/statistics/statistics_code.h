// Writes and reads the code of statistics: numbers in as few bytes as they need.

#ifndef SHARDFEED_SHARD_STATISTICS_STATISTICS_CODE_H_
#define SHARDFEED_SHARD_STATISTICS_STATISTICS_CODE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardfeed {

// No count of records, values or bytes is larger, so that sums of a few of them cannot overflow.
inline constexpr uint64_t kMaxStatisticsCount = uint64_t{1} << 56;

class StatisticsWriter {
 public:
  void Number(unsigned __int128 value) {
    for (; value >= 0x80; value >>= 7) code_.push_back(static_cast<char>(value | 0x80));
    code_.push_back(static_cast<char>(value));
  }
  void Fixed(uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) code_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void Double(double value) { Fixed(std::bit_cast<uint64_t>(value), 8); }
  void Bytes(std::string_view bytes) {
    Number(bytes.size());
    code_.append(bytes);
  }

  std::string& code() { return code_; }

 private:
  std::string code_;
};

// Reads what StatisticsWriter has written. After the first thing that cannot be read, everything
// reads as zero or empty. Borrows the code.
class StatisticsReader {
 public:
  explicit StatisticsReader(std::string_view code) : rest_(code) {}

  // A number of at most `most`.
  uint64_t Number(uint64_t most = kMaxStatisticsCount) {
    const unsigned __int128 value = Wide();
    if (value > most) Fail();
    return ok_ ? static_cast<uint64_t>(value) : 0;
  }
  unsigned __int128 Wide() {
    unsigned __int128 value = 0;
    for (int shift = 0; shift < 128 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      const unsigned __int128 part = byte & 0x7f;
      if (shift > 121 && part >> (128 - shift) != 0) break;
      value |= part << shift;
      if (byte >= 0x80) continue;
      if (byte == 0 && shift > 0) break;  // not the shortest code
      return ok_ ? value : 0;
    }
    Fail();
    return 0;
  }
  uint64_t Fixed(size_t bytes) {
    uint64_t value = 0;
    const std::string_view taken = Take(bytes);
    for (size_t i = 0; i < taken.size(); ++i) {
      value |= uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    }
    return value;
  }
  double Double() { return std::bit_cast<double>(Fixed(8)); }
  std::string_view Bytes(size_t most) { return Take(Number(most)); }
  std::string_view Take(size_t bytes) {
    if (bytes > rest_.size()) Fail();
    if (!ok_) return {};
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  void Fail() {
    ok_ = false;
    rest_ = {};
  }
  void Expect(bool holds) {
    if (!holds) Fail();
  }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STATISTICS_STATISTICS_CODE_H_
