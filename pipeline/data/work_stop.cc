#include "pipeline/data/work_stop.h"

#include <utility>

namespace shardfeed {
namespace {

thread_local const std::stop_token* current = nullptr;

}  // namespace

WorkStop::WorkStop(std::stop_token token) : token_(std::move(token)), outer_(current) {
  current = &token_;
}

WorkStop::~WorkStop() { current = outer_; }

const std::stop_token& WorkStop::Token() {
  static const auto* never = new std::stop_token();
  return current == nullptr ? *never : *current;
}

}  // namespace shardfeed
