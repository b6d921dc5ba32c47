#include "cli/reports/mix_sources.h"

#include <algorithm>

#include "cli/terminal/units.h"
#include "fmt/format.h"

namespace shardfeed {

std::vector<uint64_t> CountTaken(const MixOrder& mix) {
  const MixSchedule& schedule = mix.schedule();
  std::vector<uint64_t> taken(schedule.num_sources());
  for (size_t i = 0; i < schedule.num_segments(); ++i) {
    const uint64_t begin = std::min(schedule.SegmentBegin(i), mix.size());
    const uint64_t end = i + 1 < schedule.num_segments()
                             ? std::min(schedule.SegmentBegin(i + 1), mix.size())
                             : mix.size();
    const uint64_t periods = (end - begin) / schedule.PeriodOf(i);
    for (size_t s = 0; s < taken.size(); ++s) taken[s] += periods * schedule.SharesOf(i)[s];
    // At most 2^20 positions, or those of a few rows of lanes.
    for (uint64_t p = begin + periods * schedule.PeriodOf(i); p < end; ++p) {
      ++taken[schedule.At(p).source];
    }
  }
  return taken;
}

void PrintSources(const MixOrder& mix) {
  constexpr size_t kShown = 16;
  const std::vector<MixSource>& sources = mix.spec().mixture->sources;
  const std::vector<uint64_t> taken = CountTaken(mix);
  for (uint32_t s = 0; s < std::min(sources.size(), kShown); ++s) {
    fmt::print("source:  {}: {}, {:.1f} % of an epoch, of {} records\n", sources[s].name,
               FormatCount(taken[s]),
               100 * static_cast<double>(taken[s]) /
                   static_cast<double>(std::max<uint64_t>(mix.size(), 1)),
               FormatCount(mix.SourceSize(s)));
  }
  if (sources.size() > kShown) fmt::print("source:  ... ({} in all)\n", sources.size());
}

}  // namespace shardfeed
