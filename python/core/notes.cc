#include "python/core/notes.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/mutex.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "python/core/errors.h"

namespace shardfeed::python {
namespace {

constexpr size_t kShown = 20;  // number of notes on a dataset that are shown, as in the program

struct Untold {
  std::atomic<bool> any = false;
  Mutex mutex;
  std::vector<std::string> texts ABSL_GUARDED_BY(mutex);  // one for each dataset
};

Untold& Kept() {
  static auto* untold = new Untold();
  return *untold;
}

}  // namespace

void KeepNotes(const std::vector<std::string>& notes) {
  const size_t shown = std::min(notes.size(), kShown);
  std::string text = fmt::format(
      "{}", fmt::join(notes.begin(), notes.begin() + static_cast<ptrdiff_t>(shown), "\n"));
  if (shown < notes.size()) {
    text += fmt::format("\n{} more notes; sf.verify(...).notes has all", notes.size() - shown);
  }
  Untold& untold = Kept();
  MutexLock lock(untold.mutex);
  untold.texts.push_back(std::move(text));
  untold.any = true;
}

void TellNotes() {
  Untold& untold = Kept();
  if (!untold.any) return;
  std::vector<std::string> texts;
  {
    MutexLock lock(untold.mutex);
    texts.swap(untold.texts);
    untold.any = false;
  }
  for (const std::string& text : texts) Warn(PyExc_UserWarning, text);
}

}  // namespace shardfeed::python
