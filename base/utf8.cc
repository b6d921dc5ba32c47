#include "base/utf8.h"

#include "simdjson.h"

namespace shardfeed {
namespace {

// The first call chooses the code for this processor, which takes memory, and simdjson ends the
// process if there is none.
[[maybe_unused]] const bool chosen_early = simdjson::validate_utf8("", 0);

}  // namespace

bool IsUtf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

}  // namespace shardfeed
