// Decides which of the requests that wait is started next.

#ifndef SHARDFEED_NET_REQUEST_QUEUE_H_
#define SHARDFEED_NET_REQUEST_QUEUE_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

namespace shardfeed {

// Requests of a group, such as those to one bucket, are started in the order in which they came. A
// group that refuses more than a tenth of its requests gets half as many at once, and then
// gradually more again. Groups take turns, so that none waits for all that another one has to send,
// and one that has to wait because it refuses requests holds up no other. Not thread-safe.
class RequestQueue {
 public:
  using Clock = std::chrono::steady_clock;

  // At most this many requests are active, in all groups together.
  explicit RequestQueue(int most_active) : most_active_(most_active) {}

  void Add(const std::string& group, uint64_t id);
  // Returns whether the request was waiting.
  bool Remove(uint64_t id);
  // The request that is to be started now, which is active from then on; nullopt: none.
  std::optional<uint64_t> Next();
  // An active request of the group has ended, with this status of HTTP, or 0. Returns whether it
  // was refused because there are too many.
  bool End(const std::string& group, int status, Clock::time_point now);

 private:
  struct Group {
    double limit;  // how many of its requests may be active
    int active = 0;
    Clock::time_point reduced = {};  // when the limit was reduced
    double refused = 0;              // recent share of refused requests
    std::deque<uint64_t> waiting = {};
  };

  const int most_active_;
  int active_ = 0;
  std::map<std::string, Group> groups_;
  std::string last_;  // the group whose request was started last
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_REQUEST_QUEUE_H_
