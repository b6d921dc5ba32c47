#include "net/azure_account.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/environment.h"
#include "fmt/format.h"
#include "net/sigv4.h"
#include "net/url.h"

namespace shardfeed {
namespace {

constexpr char kConnectionString[] = "AZURE_STORAGE_CONNECTION_STRING";

std::string Trim(std::string text) {
  absl::StripAsciiWhitespace(&text);
  return text;
}

// Whether the text can be a name of an account or a part of a host's.
bool IsName(std::string_view text, std::string_view others) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || others.find(static_cast<char>(c)) != others.npos;
  });
}

absl::StatusOr<std::string> Endpoint(std::string text, std::string_view variable) {
  while (text.ends_with('/')) text.pop_back();
  // What has been put here by mistake may be a key, so the message repeats nothing of it.
  if (!CheckOrigin(variable, text).ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected http://HOST or https://HOST, with a path if need be", variable));
  }
  return text;
}

absl::StatusOr<std::string> Key(const std::string& text, std::string_view variable) {
  std::string key;
  if (!absl::Base64Unescape(text, &key) || key.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the account's key is not in Base64", variable));
  }
  return key;
}

absl::StatusOr<std::string> Sas(std::string_view text, std::string_view variable) {
  if (text.starts_with('?')) text.remove_prefix(1);
  const bool printable =
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (!printable || text.find("sig=") == text.npos) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: expected a shared access signature such as sv=...&sp=...&sig=...", variable));
  }
  return std::string(text);
}

// "Name=value;Name=value", with names in lower case.
std::map<std::string, std::string> Settings(const std::string& text) {
  std::map<std::string, std::string> settings;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ';'))) {
    const size_t end = part.find('=');
    if (end == part.npos) continue;
    settings[absl::AsciiStrToLower(Trim(part.substr(0, end)))] = Trim(part.substr(end + 1));
  }
  return settings;
}

absl::StatusOr<AzureAccount> FromConnectionString(const std::string& text) {
  std::map<std::string, std::string> settings = Settings(text);
  AzureAccount account;
  account.name = settings["accountname"];
  account.source = kConnectionString;
  if (!account.name.empty() && !IsName(account.name, "-")) {
    return absl::InvalidArgumentError(
        fmt::format("{}: AccountName is not the name of an account", kConnectionString));
  }
  if (const std::string& endpoint = settings["blobendpoint"]; !endpoint.empty()) {
    absl::StatusOr<std::string> url =
        Endpoint(endpoint, fmt::format("{}: BlobEndpoint", kConnectionString));
    if (!url.ok()) return url.status();
    account.endpoint = *std::move(url);
  } else if (!account.name.empty()) {
    const std::string& protocol = settings["defaultendpointsprotocol"];
    const std::string& suffix = settings["endpointsuffix"];
    absl::StatusOr<std::string> url =
        Endpoint(fmt::format("{}://{}.blob.{}", protocol.empty() ? "https" : protocol, account.name,
                             suffix.empty() ? "core.windows.net" : suffix),
                 fmt::format("{}: DefaultEndpointsProtocol and EndpointSuffix", kConnectionString));
    if (!url.ok()) return url.status();
    account.endpoint = *std::move(url);
  } else {
    return absl::InvalidArgumentError(
        fmt::format("{}: it has neither AccountName nor BlobEndpoint", kConnectionString));
  }
  if (const std::string& key = settings["accountkey"]; !key.empty()) {
    if (account.name.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: it has AccountKey without AccountName", kConnectionString));
    }
    absl::StatusOr<std::string> decoded = Key(key, kConnectionString);
    if (!decoded.ok()) return decoded.status();
    account.key = *std::move(decoded);
  } else if (const std::string& sas = settings["sharedaccesssignature"]; !sas.empty()) {
    absl::StatusOr<std::string> checked =
        Sas(sas, fmt::format("{}: SharedAccessSignature", kConnectionString));
    if (!checked.ok()) return checked.status();
    account.sas = *std::move(checked);
  }
  return account;
}

}  // namespace

absl::StatusOr<AzureUrl> ParseAzureUrl(std::string_view url) {
  const UrlParts parts = SplitUrl(url);
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("{}://{}: {}", parts.scheme, parts.host, what));
  };
  AzureUrl found;
  if (parts.scheme == "az") {
    found.container = parts.host;
  } else {
    const size_t at = parts.host.find('@');
    const std::string_view host = at == parts.host.npos ? "" : parts.host.substr(at + 1);
    const size_t dfs = host.find(".dfs.");
    // The part before "@" may be a password, so the message must not repeat it.
    if (dfs == host.npos || !IsName(host.substr(0, dfs), "-") || !IsName(host, "-.")) {
      return absl::InvalidArgumentError(fmt::format(
          "{}://...: expected abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/...", parts.scheme));
    }
    found.container = parts.host.substr(0, at);
    found.account = host.substr(0, dfs);
    found.endpoint = "https://" + absl::StrReplaceAll(std::string(host), {{".dfs.", ".blob."}});
  }
  if (found.container.find('@') != std::string::npos) {
    return absl::InvalidArgumentError(
        "az://...@...: az:// has a container alone (az://CONTAINER/...); the account is that of "
        "AZURE_STORAGE_ACCOUNT, or of abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/...");
  }
  if (const size_t colon = found.container.find(':'); colon != std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("{}://{}:...: a URL must not contain a password; credentials are taken from "
                    "the environment",
                    parts.scheme, found.container.substr(0, colon)));
  }
  if (!IsName(found.container, "-$")) {
    return wrong("containers have names of letters, digits and '-'");
  }
  return found;
}

absl::StatusOr<AzureAccount> FindAzureAccount(const AzureUrl& url) {
  AzureAccount account;
  if (const std::string text = Env(kConnectionString); !text.empty()) {
    absl::StatusOr<AzureAccount> found = FromConnectionString(text);
    if (!found.ok()) return found.status();
    if (url.account.empty() || found->name == url.account) account = *std::move(found);
  }
  const std::string name = Env("AZURE_STORAGE_ACCOUNT");
  if (account.name.empty()) account.name = url.account.empty() ? name : url.account;
  if (!account.name.empty() && !IsName(account.name, "-")) {
    return absl::InvalidArgumentError("AZURE_STORAGE_ACCOUNT: expected the name of an account");
  }
  // The other variables belong to this account.
  if (name.empty() || name == account.name) {
    const std::string key = Env("AZURE_STORAGE_KEY");
    const std::string sas = Env("AZURE_STORAGE_SAS_TOKEN");
    const std::string endpoint = Env("AZURE_STORAGE_ENDPOINT");
    const bool found = !account.key.empty() || !account.sas.empty();
    if (!found && !key.empty()) {
      absl::StatusOr<std::string> decoded = Key(key, "AZURE_STORAGE_KEY");
      if (!decoded.ok()) return decoded.status();
      account.key = *std::move(decoded);
      account.source = "AZURE_STORAGE_KEY";
    } else if (!found && !sas.empty()) {
      absl::StatusOr<std::string> checked = Sas(sas, "AZURE_STORAGE_SAS_TOKEN");
      if (!checked.ok()) return checked.status();
      account.sas = *std::move(checked);
      account.source = "AZURE_STORAGE_SAS_TOKEN";
    }
    if (!endpoint.empty()) {
      absl::StatusOr<std::string> checked = Endpoint(endpoint, "AZURE_STORAGE_ENDPOINT");
      if (!checked.ok()) return checked.status();
      account.endpoint = *std::move(checked);
    }
  }
  if (account.endpoint.empty()) account.endpoint = url.endpoint;
  if (account.endpoint.empty() && !account.name.empty()) {
    account.endpoint = fmt::format("https://{}.blob.core.windows.net", account.name);
  }
  if (account.endpoint.empty() || (!account.key.empty() && account.name.empty())) {
    return absl::InvalidArgumentError(fmt::format(
        "az://{}: the storage account is not known; set AZURE_STORAGE_ACCOUNT or "
        "AZURE_STORAGE_CONNECTION_STRING, or write abfss://{}@ACCOUNT.dfs.core.windows.net/...",
        url.container, url.container));
  }
  return account;
}

std::string SharedKeyHeader(const AzureAccount& account,
                            const std::map<std::string, std::string>& query,
                            const HttpRequest& request) {
  std::map<std::string, std::string> headers;  // in the order of names
  for (const std::string& header : request.headers) {
    const size_t colon = header.find(':');
    headers[absl::AsciiStrToLower(header.substr(0, colon))] = Trim(header.substr(colon + 1));
  }
  if (request.body != nullptr && !request.body->empty()) {
    headers["content-length"] = fmt::format("{}", request.body->size());
  }
  std::string to_sign = request.method + "\n";
  for (const char* name :
       {"content-encoding", "content-language", "content-length", "content-md5", "content-type",
        "date", "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"}) {
    const auto it = headers.find(name);
    to_sign += (it == headers.end() ? "" : it->second) + "\n";
  }
  for (const auto& [name, value] : headers) {
    if (name.starts_with("x-ms-")) to_sign += fmt::format("{}:{}\n", name, value);
  }
  // The path as it is sent, escapes included.
  const size_t host = request.url.find("://") + 3;
  const size_t path = request.url.find('/', host);
  to_sign += fmt::format("/{}{}", account.name,
                         request.url.substr(path, request.url.find('?', path) - path));
  for (const auto& [name, value] : query) to_sign += fmt::format("\n{}:{}", name, value);
  return fmt::format("Authorization: SharedKey {}:{}", account.name,
                     absl::Base64Escape(HmacSha256(account.key, to_sign)));
}

std::optional<std::time_t> SasExpiry(std::string_view sas) {
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(std::string(sas), '&'))) {
    if (!part.starts_with("se=")) continue;
    const std::string text =
        absl::StrReplaceAll(part.substr(3), {{"%3A", ":"}, {"%3a", ":"}, {"%2D", "-"}});
    std::tm time = {};
    // "2026-11-23T20:43:13Z", perhaps without seconds or without a time of day.
    for (const char* format : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"}) {
      if (::strptime(text.c_str(), format, &time) != nullptr) return ::timegm(&time);
      time = {};
    }
  }
  return std::nullopt;
}

}  // namespace shardfeed
