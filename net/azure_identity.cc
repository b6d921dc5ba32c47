#include "net/azure_identity.h"

#include <charconv>
#include <chrono>
#include <cstring>
#include <ctime>
#include <map>
#include <string_view>
#include <utility>

#include "base/environment.h"
#include "fmt/format.h"
#include "io/file.h"
#include "net/json_text.h"
#include "net/secret_text.h"
#include "net/sigv4.h"
#include "net/transfers.h"

namespace shardfeed {
namespace {

constexpr uint64_t kMaxTokenBytes = 64 << 10;
constexpr char kResource[] = "https://storage.azure.com";

// A number, as such or as text, as some services have it.
std::optional<std::time_t> Number(const nlohmann::json& json, const char* name) {
  if (!json.is_object() || !json.contains(name)) return std::nullopt;
  if (json[name].is_number_integer()) return json[name].get<std::time_t>();
  const std::string text = TextMember(json, name);
  std::time_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// {"access_token", "expires_in", "expires_on"}
absl::StatusOr<Credentials> ParseToken(const HttpResponse& response, std::string_view source) {
  const nlohmann::json json = ParseJsonText(response.body);
  Credentials found;
  found.source = source;
  found.token = TextMember(json, "access_token");
  if (const auto on = Number(json, "expires_on")) {
    found.expires = *on;
  } else if (const auto in = Number(json, "expires_in")) {
    found.expires = std::time(nullptr) + *in;
  }
  if (!found.token.empty() && found.expires && IsSoundSecret(found.token)) return found;
  return absl::UnavailableError(
      fmt::format("the identity of {}: unexpected response from the identity service", source));
}

// The error with what the service says, "AADSTS7000215: Invalid client secret provided. ...".
absl::Status Refused(const absl::Status& status, const HttpResponse& answer,
                     std::string_view source, std::string_view remedy) {
  const nlohmann::json json = ParseJsonText(answer.body);
  std::string said = TextMember(json, "error_description");
  said = said.substr(0, said.find_first_of("\r\n"));
  if (said.empty()) said = std::string(status.message());
  return absl::UnavailableError(
      fmt::format("the identity of {} gives no token: {}; {}", source, said, remedy));
}

absl::StatusOr<Credentials> Ask(const HttpRequest& request, const std::string& server,
                                std::string_view source, std::string_view remedy) {
  HttpResponse refused;
  const absl::StatusOr<HttpResponse> response = CallServer(request, server, &refused);
  if (absl::IsCancelled(response.status())) return response.status();
  if (!response.ok()) return Refused(response.status(), refused, source, remedy);
  return ParseToken(*response, source);
}

absl::StatusOr<Credentials> FromAuthority(std::map<std::string, std::string> form,
                                          std::string_view source) {
  std::string authority = Env("AZURE_AUTHORITY_HOST");
  if (authority.empty()) authority = "https://login.microsoftonline.com";
  if (authority.find("://") == authority.npos) authority = "https://" + authority;
  while (authority.ends_with('/')) authority.pop_back();
  form["grant_type"] = "client_credentials";
  form["client_id"] = Env("AZURE_CLIENT_ID");
  form["scope"] = fmt::format("{}/.default", kResource);
  HttpRequest request;
  request.method = "POST";
  request.url = fmt::format("{}/{}/oauth2/v2.0/token", authority, Env("AZURE_TENANT_ID"));
  request.headers = {"Content-Type: application/x-www-form-urlencoded"};
  request.body = std::make_shared<const std::string>(CanonicalQuery(form));
  return Ask(request, authority, source, "check AZURE_TENANT_ID and AZURE_CLIENT_ID");
}

absl::StatusOr<Credentials> FromSecret() {
  return FromAuthority({{"client_secret", Env("AZURE_CLIENT_SECRET")}}, "AZURE_CLIENT_SECRET");
}

// The file is replaced from time to time.
absl::StatusOr<Credentials> FromWorkload() {
  const absl::StatusOr<std::string> path = PathIn("AZURE_FEDERATED_TOKEN_FILE");
  if (!path.ok()) return path.status();
  absl::StatusOr<std::string> assertion = ReadFile(*path, kMaxTokenBytes);
  if (!assertion.ok()) return assertion.status();
  while (!assertion->empty() && std::strchr("\r\n ", assertion->back()) != nullptr) {
    assertion->pop_back();
  }
  return FromAuthority(
      {{"client_assertion", *assertion},
       {"client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}},
      "AZURE_FEDERATED_TOKEN_FILE");
}

std::string ManagedQuery(const char* version) {
  std::map<std::string, std::string> query = {{"api-version", version}, {"resource", kResource}};
  if (const std::string client = Env("AZURE_CLIENT_ID"); !client.empty()) {
    query["client_id"] = client;
  }
  return CanonicalQuery(query);
}

absl::StatusOr<Credentials> FromAppService() {
  const std::string endpoint = Env("IDENTITY_ENDPOINT");
  const std::string header = Env("IDENTITY_HEADER");
  if (absl::Status status = CheckSecret("IDENTITY_HEADER", header, /*blanks=*/true); !status.ok())
    return status;
  HttpRequest request;
  request.url = fmt::format("{}?{}", endpoint, ManagedQuery("2019-08-01"));
  request.headers = {"X-IDENTITY-HEADER: " + header};
  return Ask(request, endpoint, "IDENTITY_ENDPOINT", "check that the service has an identity");
}

std::string MetadataHost() {
  std::string host = Env("AZURE_POD_IDENTITY_AUTHORITY_HOST");
  if (host.empty()) host = "http://169.254.169.254";
  while (host.ends_with('/')) host.pop_back();
  return host;
}

HttpRequest MetadataRequest() {
  HttpRequest request;
  request.url = fmt::format("{}/metadata/identity/oauth2/token?{}", MetadataHost(),
                            ManagedQuery("2018-02-01"));
  request.headers = {"Metadata: true"};
  return request;
}

}  // namespace

absl::StatusOr<std::optional<Credentials>> FindAzureIdentity() {
  const bool application = !Env("AZURE_TENANT_ID").empty() && !Env("AZURE_CLIENT_ID").empty();
  if (application && !Env("AZURE_CLIENT_SECRET").empty()) return FromSecret();
  if (application && !Env("AZURE_FEDERATED_TOKEN_FILE").empty()) return FromWorkload();
  if (!Env("IDENTITY_ENDPOINT").empty() && !Env("IDENTITY_HEADER").empty()) {
    return FromAppService();
  }
  // Outside a virtual machine nothing answers, or another service does; then there is no identity.
  HttpRequest request = MetadataRequest();
  request.stall = std::chrono::seconds(1);
  request.connect = std::chrono::seconds(1);
  const HttpResponse response = CallServerOnce(std::move(request));
  if (!response.transport.ok() || response.status != 200) return std::nullopt;
  return ParseToken(response, "the metadata service");
}

}  // namespace shardfeed
