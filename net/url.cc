#include "net/url.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace shardfeed {

std::optional<std::string_view> SchemeOf(std::string_view url) {
  const size_t end = url.find("://");
  if (end == 0 || end == url.npos) return std::nullopt;
  const std::string_view scheme = url.substr(0, end);
  const bool sound = std::all_of(scheme.begin(), scheme.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
  });
  return sound ? std::optional(scheme) : std::nullopt;
}

std::string UrlEscape(std::string_view text, bool keep_slashes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~' ||
        (keep_slashes && c == '/')) {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

UrlParts SplitUrl(std::string_view url) {
  const size_t scheme = url.find("://");
  const std::string_view rest = url.substr(scheme + 3);
  const size_t slash = rest.find('/');
  return {url.substr(0, scheme), rest.substr(0, slash),
          slash == rest.npos ? std::string_view() : rest.substr(slash + 1)};
}

absl::Status CheckOrigin(std::string_view variable, std::string_view origin,
                         std::string_view forms) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(absl::string_view(variable.data(), variable.size()), ": expected ",
                     absl::string_view(forms.data(), forms.size()), ", ",
                     absl::string_view(what.data(), what.size())));
  };
  const std::string_view host = origin.substr(std::min(origin.find("://"), origin.size()));
  if (host.substr(0, host.find('/', 3)).find('@') != host.npos) {
    return wrong("without a password");
  }
  if (origin.find_first_of("?#") != origin.npos) return wrong("without a query");
  if (origin.find_first_of("@ \r\n") != origin.npos) return wrong("without '@' and blanks");
  if (!origin.starts_with("http://") && !origin.starts_with("https://")) {
    return wrong("got '" + std::string(origin) + "'");
  }
  return absl::OkStatus();
}

std::string_view SecretIn(std::string_view url) {
  constexpr std::array<absl::string_view, 6> kSecrets = {
      "sig",         "signature", "x-amz-signature", "x-amz-security-token", "x-goog-signature",
      "access_token"};
  size_t at = url.find('?');
  while (at != url.npos) {
    const size_t end = url.find('&', at + 1);
    std::string_view name = url.substr(at + 1, end == url.npos ? end : end - at - 1);
    name = name.substr(0, name.find('='));
    const absl::string_view found(name.data(), name.size());
    if (std::any_of(kSecrets.begin(), kSecrets.end(), [&](absl::string_view secret) {
          return absl::EqualsIgnoreCase(found, secret);
        })) {
      return name;
    }
    at = end;
  }
  return "";
}

}  // namespace shardfeed
