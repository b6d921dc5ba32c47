// Monotonic time, for measuring how long something takes.

#ifndef SHARDFEED_BASE_CLOCK_H_
#define SHARDFEED_BASE_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace shardfeed {

// Nanoseconds on std::chrono::steady_clock, whose start is arbitrary.
inline uint64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline double NowSeconds() { return static_cast<double>(NowNs()) * 1e-9; }

// Measures the time since its construction.
class Stopwatch {
 public:
  double Seconds() const { return static_cast<double>(NowNs() - start_) * 1e-9; }

 private:
  const uint64_t start_ = NowNs();
};

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_CLOCK_H_
