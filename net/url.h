// URLs and their parts.

#ifndef SHARDFEED_NET_URL_H_
#define SHARDFEED_NET_URL_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace shardfeed {

// "s3" for "s3://bucket/key"; nullopt for a path. A scheme consists of letters, digits, '+', '-'
// and '.'.
std::optional<std::string_view> SchemeOf(std::string_view url);

// Escapes everything except RFC 3986's unreserved characters as %XX; `keep_slashes` keeps '/'.
std::string UrlEscape(std::string_view text, bool keep_slashes);

// "s3://bucket/a/b" has the host "bucket" (for http including a port) and the key "a/b".
struct UrlParts {
  std::string_view scheme;
  std::string_view host;
  std::string_view key;
};
// `url` must have a scheme by SchemeOf.
UrlParts SplitUrl(std::string_view url);

// Checks the address of a server, http://HOST or https://HOST with nothing but a path, that is the
// value of `variable`. `forms`: what may be written, for the message. InvalidArgument: it is not
// such an address, or contains a password or a query; the message does not repeat these, which may
// be secret.
absl::Status CheckOrigin(std::string_view variable, std::string_view origin,
                         std::string_view forms = "http://HOST or https://HOST");

// The name of the first parameter in the query or the fragment of a URL that is a secret, such as a
// signature, a token or a password. Empty: there is none.
std::string_view SecretIn(std::string_view url);

// The URL for messages: without password, query and fragment, which may be secret. What is not a
// URL stays.
std::string ShownUrl(std::string_view url);

// InvalidArgument: the name is a URL of a known scheme without its two slashes, such as
// s3:/bucket/x, which would be taken for a path. The message has the right form.
absl::Status CheckSlashes(std::string_view name);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_URL_H_
