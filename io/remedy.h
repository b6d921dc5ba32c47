// Which option helps where an error occurred. The library does not know how its fronts spell their
// options, so it attaches the option to the status, and each front says it in its own words:
// "; pass --overwrite to replace it" or "; pass overwrite=True to replace it".

#ifndef SHARDFEED_IO_REMEDY_H_
#define SHARDFEED_IO_REMEDY_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace shardfeed {

struct Remedy {
  std::string option;   // words joined by underscores: "max_record"
  std::string value;    // a placeholder of its value, "SIZE"; empty: the option is on or off
  std::string purpose;  // what it does, behind "to": "replace it"
};

// Attaches a remedy to an error, of which the message says nothing. Of several the last one counts.
absl::Status WithRemedy(absl::Status status, const Remedy& remedy);
std::optional<Remedy> RemedyOf(const absl::Status& status);

// The same error with another message: the code and what is attached stay.
absl::Status WithMessage(const absl::Status& status, std::string_view message);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_REMEDY_H_
