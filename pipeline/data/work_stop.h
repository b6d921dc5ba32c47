// Tells a thread whether its work is still needed.

#ifndef SHARDFEED_PIPELINE_DATA_WORK_STOP_H_
#define SHARDFEED_PIPELINE_DATA_WORK_STOP_H_

#include <stop_token>

namespace shardfeed {

// While it exists, Token() returns `token` on the thread that created it. Code that works on many
// rows, or waits, checks it in between: user functions may take long, and a run that is abandoned
// waits for at most one call.
class WorkStop {
 public:
  explicit WorkStop(std::stop_token token);
  ~WorkStop();
  WorkStop(const WorkStop&) = delete;
  WorkStop& operator=(const WorkStop&) = delete;

  // The token of the innermost WorkStop on this thread, or one that never stops.
  static const std::stop_token& Token();

 private:
  const std::stop_token token_;
  const std::stop_token* const outer_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_WORK_STOP_H_
