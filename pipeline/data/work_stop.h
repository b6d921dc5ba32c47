// Whether what a thread works on is still wanted.

#ifndef SHARDFEED_PIPELINE_DATA_WORK_STOP_H_
#define SHARDFEED_PIPELINE_DATA_WORK_STOP_H_

#include <stop_token>

namespace shardfeed {

// While it lives, Token() gives `token` on the thread that made it. Whoever works on many rows, or
// waits, asks it in between: functions of the user's may take long, and a run that is left waits
// for one call of them, not for all.
class WorkStop {
 public:
  explicit WorkStop(std::stop_token token);
  ~WorkStop();
  WorkStop(const WorkStop&) = delete;
  WorkStop& operator=(const WorkStop&) = delete;

  // Of the innermost one on this thread; without any, a token that never stops.
  static const std::stop_token& Token();

 private:
  const std::stop_token token_;
  const std::stop_token* const outer_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_WORK_STOP_H_
