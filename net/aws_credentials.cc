#include "net/aws_credentials.h"

#include <cstring>
#include <utility>

#include "base/environment.h"
#include "fmt/format.h"
#include "io/file.h"
#include "net/credentials.h"
#include "net/json_text.h"
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
  if (found.access_key_id.empty() || found.secret_access_key.empty()) return Malformed(name);
  return found;
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  absl::StatusOr<std::string> token = ReadFile(path, kMaxTokenBytes);
  // Not found is for objects.
  if (!token.ok()) return absl::UnavailableError(token.status().message());
  while (!token->empty() && std::strchr("\r\n ", token->back()) != nullptr) token->pop_back();
  return token;
}

absl::StatusOr<Credentials> FromWebIdentity(const std::string& region) {
  const std::string name = "AWS_WEB_IDENTITY_TOKEN_FILE";
  absl::StatusOr<std::string> token = ReadToken(Env("AWS_WEB_IDENTITY_TOKEN_FILE"));
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
  if (found.access_key_id.empty() || found.secret_access_key.empty()) return Malformed(endpoint);
  return found;
}

absl::StatusOr<Credentials> FromContainer() {
  HttpRequest request;
  request.url = Env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (request.url.empty()) {
    request.url = "http://169.254.170.2" + Env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  }
  std::string token = Env("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const std::string path = Env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !path.empty()) {
    absl::StatusOr<std::string> read = ReadToken(path);
    if (!read.ok()) return read.status();
    token = *std::move(read);
  }
  if (!token.empty()) request.headers.push_back("Authorization: " + token);
  const std::string name = request.url;
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
  if (!token.transport.ok() || token.status != 200) return std::optional<Credentials>();
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
  return ParseJson(response->body, endpoint);
}

}  // namespace

absl::StatusOr<std::optional<Credentials>> FindAwsCredentials(
    const std::map<std::string, std::string>& profile, const std::string& region) {
  if (!Env("AWS_ACCESS_KEY_ID").empty() && !Env("AWS_SECRET_ACCESS_KEY").empty()) {
    return Credentials{.access_key_id = Env("AWS_ACCESS_KEY_ID"),
                       .secret_access_key = Env("AWS_SECRET_ACCESS_KEY"),
                       .session_token = Env("AWS_SESSION_TOKEN"),
                       .source = "the environment"};
  }
  if (!Env("AWS_WEB_IDENTITY_TOKEN_FILE").empty() && !Env("AWS_ROLE_ARN").empty()) {
    return FromWebIdentity(region);
  }
  const auto setting = [&](const char* name) {
    const auto it = profile.find(name);
    return it == profile.end() ? std::string() : it->second;
  };
  if (!setting("aws_access_key_id").empty() && !setting("aws_secret_access_key").empty()) {
    return Credentials{.access_key_id = setting("aws_access_key_id"),
                       .secret_access_key = setting("aws_secret_access_key"),
                       .session_token = setting("aws_session_token"),
                       .source = "the profile"};
  }
  if (!Env("AWS_CONTAINER_CREDENTIALS_FULL_URI").empty() ||
      !Env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").empty()) {
    return FromContainer();
  }
  if (Env("AWS_EC2_METADATA_DISABLED") == "true") return std::optional<Credentials>();
  return FromEc2();
}

}  // namespace shardfeed
