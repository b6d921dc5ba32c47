// URLs, and names of objects in them.

#ifndef SHARDFEED_NET_URL_H_
#define SHARDFEED_NET_URL_H_

#include <optional>
#include <string>
#include <string_view>

namespace shardfeed {

// "s3" of "s3://bucket/key"; nothing for a path. A scheme has letters, digits, '+', '-' and '.'.
std::optional<std::string_view> SchemeOf(std::string_view url);

// The text with everything but RFC 3986's unreserved characters as %XX; `keep_slashes`: '/' as it
// is.
std::string UrlEscape(std::string_view text, bool keep_slashes);

// "s3://bucket/a/b" is a host "bucket" (of http: also its port) and a key "a/b".
struct UrlParts {
  std::string_view scheme;
  std::string_view host;
  std::string_view key;
};
// Of a text that SchemeOf finds a scheme in.
UrlParts SplitUrl(std::string_view url);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_URL_H_
