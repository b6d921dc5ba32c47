#include "net/url.h"

#include <algorithm>
#include <array>
#include <cctype>

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

namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// The name of a parameter as it is compared: without escapes, in lower case, and without '-' and
// '_', which programs use in different ways.
std::string PlainName(std::string_view name) {
  std::string plain;
  for (size_t i = 0; i < name.size(); ++i) {
    char c = name[i];
    if (c == '%' && i + 2 < name.size() && HexDigit(name[i + 1]) >= 0 &&
        HexDigit(name[i + 2]) >= 0) {
      c = static_cast<char>(HexDigit(name[i + 1]) * 16 + HexDigit(name[i + 2]));
      i += 2;
    }
    if (c != '-' && c != '_')
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

bool NamesSecret(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames = {"sig", "sas",  "auth", "authorization",
                                                      "jwt", "code", "pass", "pwd"};
  // Of x-amz-security-token, access_token, X-Goog-Signature, api_key and the like.
  constexpr std::array<std::string_view, 7> kEndings = {"token",  "signature", "password", "passwd",
                                                        "secret", "apikey",    "secretkey"};
  const std::string plain = PlainName(name);
  return std::find(kNames.begin(), kNames.end(), plain) != kNames.end() ||
         std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return plain.ends_with(ending); });
}

}  // namespace

std::string_view SecretIn(std::string_view url) {
  size_t at = url.find_first_of("?#");
  while (at != url.npos) {
    const size_t end = url.find_first_of("?#&;", at + 1);
    std::string_view parameter = url.substr(at + 1, end == url.npos ? end : end - at - 1);
    const size_t equals = parameter.find('=');
    if (equals != parameter.npos && NamesSecret(parameter.substr(0, equals))) {
      return parameter.substr(0, equals);
    }
    at = end;
  }
  return "";
}

std::string ShownUrl(std::string_view url) {
  const std::optional<std::string_view> scheme = SchemeOf(url);
  if (!scheme) return std::string(url);
  const std::string start = std::string(*scheme) + "://";
  std::string_view rest = url.substr(start.size());
  rest = rest.substr(0, rest.find_first_of("?#"));
  const std::string_view host = rest.substr(0, rest.find('/'));
  const size_t at = host.rfind('@');
  const size_t colon = host.find(':');
  if (at != host.npos) {
    // In abfss://CONTAINER@ACCOUNT and its kin, it is no password.
    const bool container = scheme->starts_with("abfs") || scheme->starts_with("wasb");
    if (container && colon > at) return start + std::string(rest);
    return start + "...@" + std::string(rest.substr(at + 1));
  }
  // What follows a colon is a port, or a password that has one of "/?#".
  const bool port = colon == host.npos || host.starts_with('[') ||
                    host.find_first_not_of("0123456789", colon + 1) == host.npos;
  return port ? start + std::string(rest) : start + "...";
}

absl::Status CheckSlashes(std::string_view name) {
  constexpr std::array<std::string_view, 7> kSchemes = {"s3",    "gs",   "az",  "abfss",
                                                        "https", "http", "file"};
  const std::string_view scheme = name.substr(0, name.find(':'));
  if (scheme.size() == name.size() || SchemeOf(name) ||
      std::find(kSchemes.begin(), kSchemes.end(), scheme) == kSchemes.end()) {
    return absl::OkStatus();
  }
  std::string_view rest = name.substr(scheme.size() + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
  const std::string meant =
      std::string(scheme) + (scheme == "file" ? ":///" : "://") + std::string(rest);
  const std::string shown = ShownUrl(meant);
  const std::string given = shown == meant ? std::string(name) : std::string(scheme) + ":...";
  return absl::InvalidArgumentError(
      absl::StrCat(given, ": a URL has two slashes after its scheme: ", shown,
                   " (for a path that begins so, write ./", shown == meant ? given : "...", ")"));
}

}  // namespace shardfeed
