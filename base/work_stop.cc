#include "base/work_stop.h"

#include <atomic>
#include <utility>

namespace shardfeed {
namespace {

thread_local const std::stop_token* current = nullptr;
std::atomic<bool (*)()> interrupt_check = nullptr;
std::atomic<std::thread::id> handling = std::thread::id();

}  // namespace

WorkStop::WorkStop(std::stop_token token) : token_(std::move(token)), outer_(current) {
  current = &token_;
}

WorkStop::~WorkStop() { current = outer_; }

const std::stop_token& WorkStop::Token() {
  static const auto* never = new std::stop_token();
  return current == nullptr ? *never : *current;
}

bool WorkStop::Requested() {
  if (current != nullptr) return current->stop_requested();
  bool (*const check)() = interrupt_check;
  return check != nullptr && check();
}

void WorkStop::SetInterruptCheck(bool (*check)()) { interrupt_check = check; }

SignalHandling::SignalHandling() : outer_(handling.exchange(std::this_thread::get_id())) {}

SignalHandling::~SignalHandling() { handling = outer_; }

bool SignalHandling::Pauses(std::thread::id thread) {
  return thread != std::thread::id() && handling.load() == thread;
}

}  // namespace shardfeed
