#include "net/azure_store.h"

#include <ctime>
#include <optional>
#include <utility>

#include "base/environment.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "net/azure_identity.h"
#include "net/azure_listing.h"
#include "net/sigv4.h"
#include "net/url.h"
#include "pugixml.hpp"

namespace shardfeed {
namespace {

// The version of the services' interface that requests use. Nothing here needs a later one.
constexpr char kVersion[] = "2020-10-02";
// Requests whose time is further from the server's than a quarter of an hour are refused.
constexpr std::time_t kMaxSkew = 840;

// The error that a response describes. Responses to HEAD have only headers.
struct AzureError {
  std::string code;
  std::string message;  // its first line: then come the request's name and time
  std::string detail;

  static AzureError Of(const HttpResponse& response) {
    pugi::xml_document xml;
    xml.load_buffer(response.body.data(), response.body.size());
    const pugi::xml_node error = xml.child("Error");
    AzureError found;
    found.code = response.Header("x-ms-error-code");
    if (found.code.empty()) found.code = error.child_value("Code");
    found.message = error.child_value("Message");
    found.message = found.message.substr(0, found.message.find_first_of("\r\n"));
    found.detail = error.child_value("AuthenticationErrorDetail");
    return found;
  }

  std::string Text(int status) const {
    if (code.empty()) return fmt::format("answered {}", status);
    return message.empty() ? code : fmt::format("{}: {}", code, message);
  }
};

// What to do about errors that have a code of their own.
std::string_view RemedyOf(std::string_view code) {
  if (code == "InvalidBlobType") {
    return "the blob of this name is a page or an append blob; remove it";
  }
  if (code == "InvalidBlobOrBlock") {
    return "another program has left an unfinished upload of this name, whose blocks have names of "
           "another length; put an empty blob in its place, remove that, and write again";
  }
  if (code == "SnapshotsPresent") return "remove the snapshots of the blob";
  if (code == "BlobArchived") return "move the blob from the archive tier to another one";
  if (code.starts_with("Lease")) return "another program holds a lease on the blob; end it";
  return "";
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Store>> AzureStore::Open(std::string_view url,
                                                              FindCredentials given) {
  absl::StatusOr<AzureUrl> parsed = ParseAzureUrl(url);
  if (!parsed.ok()) return parsed.status();
  absl::StatusOr<AzureAccount> account = FindAzureAccount(*parsed);
  if (!account.ok()) return account.status();
  std::shared_ptr<AzureStore> store(new AzureStore());
  const UrlParts parts = SplitUrl(url);
  store->root_ = fmt::format("{}://{}", parts.scheme, parts.host);
  store->container_ = parsed->container;
  store->account_ = *std::move(account);
  const bool anonymous = !Env("AZURE_SKIP_SIGNATURE").empty();
  if (anonymous || given != nullptr) {
    store->account_.key.clear();
    store->account_.sas.clear();
  }
  if (given == nullptr) {
    if (anonymous || !store->account_.key.empty() || !store->account_.sas.empty()) return store;
    given = FindAzureIdentity;
  }
  absl::StatusOr<std::unique_ptr<CredentialsCache>> tokens =
      CredentialsCache::Make(std::move(given));
  if (!tokens.ok()) {
    return absl::Status(
        tokens.status().code(),
        fmt::format("{}: {}", store->root_, std::string(tokens.status().message())));
  }
  store->tokens_ = *std::move(tokens);
  if (store->tokens_ != nullptr && store->tokens_->Get().token.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: {} gave a key; Azure takes a token",
                                                  store->root_, store->tokens_->Get().source));
  }
  return store;
}

absl::StatusOr<HttpRequest> AzureStore::Request(
    std::string_view method, std::string_view path, const std::map<std::string, std::string>& query,
    const std::map<std::string, std::string>& headers) const {
  HttpRequest request;
  request.method = method;
  request.url = fmt::format("{}/{}", account_.endpoint, UrlEscape(container_, false));
  request.group = request.url;
  const std::string_view key = SplitUrl(path).key;
  if (!key.empty()) request.url += "/" + UrlEscape(key, /*keep_slashes=*/true);
  if (!query.empty()) request.url += "?" + CanonicalQuery(query);
  request.headers = {
      fmt::format("x-ms-date: {:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(clock_.Now())),
      fmt::format("x-ms-version: {}", kVersion)};
  for (const auto& [name, value] : headers) {
    request.headers.push_back(fmt::format("{}: {}", name, value));
  }
  return request;
}

void AzureStore::Sign(const std::map<std::string, std::string>& query, HttpRequest* request) const {
  if (!account_.key.empty()) {
    request->headers.push_back(SharedKeyHeader(account_, query, *request));
  } else if (!account_.sas.empty()) {
    // The signature is added only here, so that no message has it: see docs/stores.md.
    request->url += (query.empty() ? "?" : "&") + account_.sas;
  } else if (tokens_ != nullptr) {
    request->headers.push_back("Authorization: Bearer " + tokens_->Get().token);
  }
}

// Returns the error for the statuses 401 and 403, and for those that servers send instead of them
// if there are no credentials.
absl::Status AzureStore::Refused(std::string_view path, const HttpResponse& response) const {
  const AzureError error = AzureError::Of(response);
  const std::string said = error.Text(response.status);
  const auto denied = [&](std::string_view text) {
    return absl::PermissionDeniedError(fmt::format("{}: {}", path, text));
  };
  if (error.code == "KeyBasedAuthenticationNotPermitted") {
    return denied(fmt::format(
        "the account takes no keys ({}); unset {}, and log in with Azure AD (AZURE_CLIENT_SECRET, "
        "a workload's or a machine's identity)",
        said, account_.source));
  }
  if (error.code == "AuthorizationFailure") {
    return denied(
        fmt::format("Azure refuses the request ({}); the account's firewall does not let "
                    "this machine in, or the credentials do not allow it",
                    said));
  }
  const bool wrong =
      error.code == "AuthenticationFailed" || error.code == "InvalidAuthenticationInfo";
  const std::optional<std::time_t> date = ParseHttpDate(response.Header("date"));
  if (!account_.key.empty()) {
    std::string_view remedy = "the key may not do this";
    if (wrong) remedy = "the key is wrong, or that of another account";
    if (wrong && error.detail.find("date header") != std::string::npos) {
      remedy = "set this machine's clock";
    }
    return denied(
        fmt::format("Azure refuses the key of {} ({}); {}", account_.source, said, remedy));
  }
  if (!account_.sas.empty()) {
    // An answer to HEAD does not say why.
    const std::optional<std::time_t> expiry = SasExpiry(account_.sas);
    const std::time_t now = date ? *date : std::time(nullptr);
    std::string_view remedy =
        "it lacks a permission: reading takes r and l, writing r, l, c, w and d";
    if (wrong) remedy = "it is wrong, or that of another account or container";
    if (wrong &&
        ((expiry && *expiry <= now) || error.detail.find("time frame") != std::string::npos)) {
      remedy =
          "it has expired, or is not valid yet; get another one, then resume from the saved "
          "state";
    }
    return denied(fmt::format("Azure refuses the shared access signature of {} ({}); {}",
                              account_.source, said, remedy));
  }
  if (tokens_ != nullptr) {
    std::string_view remedy =
        "it needs the role Storage Blob Data Reader, and to write Storage Blob Data Contributor";
    if (wrong) remedy = "its token is not valid for this account, or has expired";
    return denied(fmt::format("Azure refuses the identity of {} ({}); {}", tokens_->Describe(),
                              said, remedy));
  }
  return denied(
      fmt::format("Azure does not allow it without credentials ({}), and none were found; set "
                  "AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or log in with Azure AD "
                  "(AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET)",
                  said));
}

absl::Status AzureStore::ErrorOf(std::string_view path, const HttpResponse& response) const {
  const AzureError error = AzureError::Of(response);
  const std::string said = error.Text(response.status);
  const auto message = [&](std::string_view text) { return fmt::format("{}: {}", path, text); };
  const bool anonymous = account_.key.empty() && account_.sas.empty() && tokens_ == nullptr;
  // Containers that are not public are reported as missing.
  const bool hidden = error.code == "ResourceNotFound" || error.code == "PublicAccessNotPermitted";
  if (response.status == 401 || response.status == 403 || (anonymous && hidden)) {
    return Refused(path, response);
  }
  if (error.code == "ContainerNotFound") {
    return absl::NotFoundError(
        message(fmt::format("there is no container '{}' at {}", container_, account_.endpoint)));
  }
  if (error.code == "InvalidBlockList") {
    return absl::NotFoundError(message(said));
  }
  if (error.code == "BlobAlreadyExists") return absl::AbortedError(message(said));
  if (const std::string_view remedy = RemedyOf(error.code); !remedy.empty()) {
    return absl::FailedPreconditionError(message(fmt::format("{} ({})", remedy, said)));
  }
  if (response.status == 404 || response.status == 412 || response.status == 416 ||
      error.code.empty()) {
    return Store::ErrorOf(path, response);
  }
  return absl::UnavailableError(message(said));
}

bool AzureStore::LearnFrom(const HttpResponse& response) const {
  if (response.status != 401 && response.status != 403) return false;
  const std::string code = AzureError::Of(response).code;
  if (code != "AuthenticationFailed" && code != "InvalidAuthenticationInfo") return false;
  if (tokens_ != nullptr) return tokens_->Expired();
  if (account_.key.empty()) return false;
  const std::optional<std::time_t> date = ParseHttpDate(response.Header("date"));
  return date && clock_.Set(*date, kMaxSkew);
}

absl::Status AzureStore::CheckWritable(std::string_view path) const {
  return CheckUtf8(path, "Azure");
}

absl::StatusOr<ObjectListing> AzureStore::List(const std::string& folder) const {
  ObjectListing listing;
  absl::Status status = ListBlobs(*this, folder, /*uncommitted=*/false, [&](ListedBlob blob) {
    if (blob.is_folder) {
      listing.folders.push_back(std::move(blob.name));
    } else {
      listing.objects.push_back({fmt::format("{}/{}", folder, blob.name), blob.size,
                                 std::move(blob.version), "", blob.modified});
    }
  });
  if (status.ok()) return listing;
  return absl::Status(status.code(), fmt::format("{}: cannot be listed: {}", folder,
                                                 std::string(status.message())));
}

}  // namespace shardfeed
