#include "net/aws_credentials.h"

#include <array>
#include <cstring>
#include <functional>
#include <utility>

#include "base/environment.h"
#include "fmt/format.h"
#include "io/file.h"
#include "net/credentials.h"
#include "net/json_text.h"
#include "net/secret_text.h"
#include "net/sigv4.h"
#include "net/transfers.h"
#include "net/url.h"
#include "pugixml.hpp"

namespace shardfeed {
namespace {

constexpr uint64_t kMaxTokenBytes = 64 << 10;

// "2026-11-23T20:43:13Z", with any fraction of a second.
std::optional<std::time_t> ParseTime(const std::string& text) {
  std::tm time = {};
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr) return std::nullopt;
  return ::timegm(&time);
}

absl::Status Malformed(const std::string& name) {
  return absl::UnavailableError(
      fmt::format("credentials of {}: the response contains no credentials", name));
}

bool IsSound(const Credentials& found) {
  return IsSoundSecret(found.access_key_id) && IsSoundSecret(found.secret_access_key) &&
         IsSoundSecret(found.session_token);
}

// Parses {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"}, the format of containers and
// EC2.
absl::StatusOr<Credentials> ParseJson(const std::string& text, const std::string& name) {
  const nlohmann::json json = ParseJsonText(text);
  Credentials found;
  found.access_key_id = TextMember(json, "AccessKeyId");
  found.secret_access_key = TextMember(json, "SecretAccessKey");
  found.session_token = TextMember(json, "Token");
  found.expires = ParseTime(TextMember(json, "Expiration"));
  found.source = name;
  if (found.access_key_id.empty() || found.secret_access_key.empty() || !IsSound(found)) {
    return Malformed(name);
  }
  return found;
}

absl::StatusOr<std::string> ReadToken(const char* variable) {
  const absl::StatusOr<std::string> path = PathIn(variable);
  if (!path.ok()) return path.status();
  absl::StatusOr<std::string> token = ReadFile(*path, kMaxTokenBytes);
  // Not found is for objects.
  if (!token.ok()) return absl::UnavailableError(token.status().message());
  while (!token->empty() && std::strchr("\r\n ", token->back()) != nullptr) token->pop_back();
  return token;
}

absl::StatusOr<Credentials> FromWebIdentity(const std::string& region) {
  const std::string name = "AWS_WEB_IDENTITY_TOKEN_FILE";
  absl::StatusOr<std::string> token = ReadToken("AWS_WEB_IDENTITY_TOKEN_FILE");
  if (!token.ok()) return token.status();
  std::string session = Env("AWS_ROLE_SESSION_NAME");
  if (session.empty()) session = "shardfeed";
  std::string endpoint = Env("AWS_ENDPOINT_URL_STS");
  if (endpoint.empty()) endpoint = fmt::format("https://sts.{}.amazonaws.com", region);
  HttpRequest request;
  request.method = "POST";
  request.url = endpoint + "/";
  request.headers = {"Content-Type: application/x-www-form-urlencoded"};
  request.body =
      std::make_shared<const std::string>(CanonicalQuery({{"Action", "AssumeRoleWithWebIdentity"},
                                                          {"RoleArn", Env("AWS_ROLE_ARN")},
                                                          {"RoleSessionName", session},
                                                          {"Version", "2011-06-15"},
                                                          {"WebIdentityToken", *token}}));
  absl::StatusOr<HttpResponse> response = CallServer(request, endpoint);
  if (!response.ok()) return response.status();
  pugi::xml_document xml;
  xml.load_buffer(response->body.data(), response->body.size());
  const pugi::xml_node node = xml.child("AssumeRoleWithWebIdentityResponse")
                                  .child("AssumeRoleWithWebIdentityResult")
                                  .child("Credentials");
  Credentials found;
  found.access_key_id = node.child_value("AccessKeyId");
  found.secret_access_key = node.child_value("SecretAccessKey");
  found.session_token = node.child_value("SessionToken");
  found.expires = ParseTime(node.child_value("Expiration"));
  found.source = name;
  if (found.access_key_id.empty() || found.secret_access_key.empty() || !IsSound(found)) {
    return Malformed(ShownUrl(endpoint));
  }
  return found;
}

absl::StatusOr<Credentials> FromContainer() {
  HttpRequest request;
  request.url = Env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (request.url.empty()) {
    request.url = "http://169.254.170.2" + Env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  }
  std::string token = Env("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  const char* variable = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
  if (!Env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").empty()) {
    variable = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
    absl::StatusOr<std::string> read = ReadToken(variable);
    if (!read.ok()) return read.status();
    token = *std::move(read);
  }
  if (absl::Status status = CheckSecret(variable, token, /*blanks=*/true); !status.ok()) {
    return status;
  }
  if (!token.empty()) request.headers.push_back("Authorization: " + token);
  const std::string name = ShownUrl(request.url);
  absl::StatusOr<HttpResponse> response = CallServer(request, name);
  if (!response.ok()) return response.status();
  return ParseJson(response->body, name);
}

// Outside EC2 nothing answers, or another service does; then there are no credentials.
absl::StatusOr<std::optional<Credentials>> FromEc2() {
  std::string endpoint = Env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (endpoint.empty()) endpoint = "http://169.254.169.254";
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const auto call = [](HttpRequest request) {
    request.stall = std::chrono::seconds(1);
    request.connect = std::chrono::seconds(1);
    return CallServerOnce(std::move(request));
  };
  HttpRequest first;
  first.method = "PUT";
  first.url = endpoint + "/latest/api/token";
  first.headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"};
  const HttpResponse token = call(std::move(first));
  if (!token.transport.ok() || token.status != 200 || !IsSoundSecret(token.body)) {
    return std::optional<Credentials>();
  }
  const std::string header = "X-aws-ec2-metadata-token: " + token.body;
  const std::string path = endpoint + "/latest/meta-data/iam/security-credentials/";
  HttpRequest roles;
  roles.url = path;
  roles.headers = {header};
  const HttpResponse role = call(std::move(roles));
  if (!role.transport.ok() || role.status != 200) return std::optional<Credentials>();
  HttpRequest last;
  last.url = path + role.body.substr(0, role.body.find('\n'));
  last.headers = {header};
  absl::StatusOr<HttpResponse> response = CallServer(last, endpoint);
  if (!response.ok()) return response.status();
  return ParseJson(response->body, ShownUrl(endpoint));
}

// A key whose parts `part` gives by name, with names as `described` has them. Nullopt: there is
// none. An error: a part is missing, or not sound.
absl::StatusOr<std::optional<Credentials>> KeyOf(
    const std::array<const char*, 3>& names, const std::function<std::string(const char*)>& part,
    const std::function<std::string(const char*)>& described, const std::string& source) {
  const Credentials found = {.access_key_id = part(names[0]),
                             .secret_access_key = part(names[1]),
                             .session_token = part(names[2]),
                             .source = source};
  if (found.access_key_id.empty() && found.secret_access_key.empty()) return std::nullopt;
  if (found.access_key_id.empty() || found.secret_access_key.empty()) {
    const int there = found.access_key_id.empty() ? 1 : 0;
    return absl::FailedPreconditionError(fmt::format("{} is set without {}; set both or neither",
                                                     described(names[there]), names[1 - there]));
  }
  for (const char* name : names) {
    if (absl::Status status = CheckSecret(described(name), part(name)); !status.ok()) return status;
  }
  return std::optional(found);
}

}  // namespace

std::string UnusedInProfile(const std::map<std::string, std::string>& profile) {
  for (const char* name : {"role_arn", "sso_session", "sso_start_url", "sso_account_id",
                           "credential_process", "web_identity_token_file", "login_session"}) {
    if (profile.contains(name)) return name;
  }
  return "";
}

absl::StatusOr<std::optional<Credentials>> FindAwsCredentials(
    const std::map<std::string, std::string>& profile, const std::string& region) {
  const auto own_name = [](const char* name) { return std::string(name); };
  absl::StatusOr<std::optional<Credentials>> found =
      KeyOf({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}, Env, own_name,
            "the environment");
  if (!found.ok() || *found) return found;
  const bool has_token = !Env("AWS_WEB_IDENTITY_TOKEN_FILE").empty();
  const bool has_role = !Env("AWS_ROLE_ARN").empty();
  if (has_token && has_role) return FromWebIdentity(region);
  // Another identity than the one that is meant must not sign.
  if (has_token || has_role) {
    const std::string_view there = has_token ? "AWS_WEB_IDENTITY_TOKEN_FILE" : "AWS_ROLE_ARN";
    const std::string_view missing = has_token ? "AWS_ROLE_ARN" : "AWS_WEB_IDENTITY_TOKEN_FILE";
    return absl::FailedPreconditionError(
        fmt::format("{} is set without {}; set both or neither", there, missing));
  }
  const auto setting = [&](const char* name) {
    const auto it = profile.find(name);
    return it == profile.end() ? std::string() : it->second;
  };
  const std::string named = Env("AWS_PROFILE");
  const std::string shown = named.empty() ? "default" : named;
  found = KeyOf(
      {"aws_access_key_id", "aws_secret_access_key", "aws_session_token"}, setting,
      [&](const char* name) { return fmt::format("{} of the profile '{}'", name, shown); },
      "the profile");
  if (!found.ok() || *found) return found;
  if (const std::string unused = UnusedInProfile(profile); !unused.empty() && !named.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "the profile '{}' has {}, which is not supported; set AWS_ACCESS_KEY_ID, "
        "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN (aws configure export-credentials --profile "
        "{} --format env), or let a function give keys (set_credentials)",
        named, unused, named));
  }
  if (!Env("AWS_CONTAINER_CREDENTIALS_FULL_URI").empty() ||
      !Env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").empty()) {
    return FromContainer();
  }
  if (Env("AWS_EC2_METADATA_DISABLED") == "true") return std::optional<Credentials>();
  return FromEc2();
}

}  // namespace shardfeed
