#include "tests/net/folder_bucket.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>

#include "fmt/format.h"
#include "tests/net/fault_server.h"

namespace shardfeed::testing {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPage =
    50;  // entries of a page of a listing; few, so that tests have several pages

std::string TagOf(std::string_view bytes) {
  return fmt::format("\"{:016x}-{}\"", std::hash<std::string_view>()(bytes), bytes.size());
}

std::string XmlEscape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string XmlUnescape(std::string text) {
  for (const auto& [from, to] : {std::pair<std::string_view, std::string_view>{"&lt;", "<"},
                                 {"&gt;", ">"},
                                 {"&quot;", "\""},
                                 {"&amp;", "&"}}) {
    for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

std::string Error(int status, std::string_view code) {
  return HttpAnswer(status, "",
                    fmt::format("<Error><Code>{}</Code><Message>no</Message></Error>", code));
}

std::string HeaderOf(const SeenRequest& request, const std::string& name) {
  const auto it = request.headers.find(name);
  return it == request.headers.end() ? "" : it->second;
}

std::string Get(const std::map<std::string, std::string>& query, const std::string& name) {
  const auto it = query.find(name);
  return it == query.end() ? "" : it->second;
}

}  // namespace

std::string HttpAnswer(int status, std::string_view headers, std::string_view body) {
  return fmt::format("HTTP/1.1 {} Answer\r\n{}Content-Length: {}\r\n\r\n{}", status, headers,
                     body.size(), body);
}

std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out +=
          static_cast<char>(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::optional<FolderBucket::Content> FolderBucket::Read(const std::string& key) const {
  std::error_code error;
  if (key.empty() || key.ends_with('/') || !fs::is_regular_file(File(key), error)) {
    return std::nullopt;
  }
  const fs::file_time_type time = fs::last_write_time(File(key), error);
  const uint64_t size = fs::file_size(File(key), error);
  if (const auto it = known_.find(key);
      it != known_.end() && it->second.time == time && it->second.content.bytes->size() == size) {
    return it->second.content;
  }
  std::ifstream file(File(key), std::ios::binary);
  std::string read(size, '\0');
  file.read(read.data(), static_cast<std::streamsize>(size));
  read.resize(static_cast<size_t>(file.gcount()));
  const auto bytes = std::make_shared<const std::string>(std::move(read));
  const auto modified = std::chrono::file_clock::to_sys(time);
  Content content = {
      .bytes = bytes,
      .tag = TagOf(*bytes),
      .modified = std::chrono::system_clock::to_time_t(
          std::chrono::time_point_cast<std::chrono::system_clock::duration>(modified))};
  // Files have the time of the kernel's last tick: one that changed just now may change again
  // without another time.
  constexpr size_t kMostKnown = 64;
  if (known_.size() >= kMostKnown) known_.clear();
  if (fs::file_time_type::clock::now() - time > std::chrono::milliseconds(50)) {
    known_[key] = {time, content};
  }
  return content;
}

void FolderBucket::Write(const std::string& key, const std::string& bytes,
                         const std::string& writer) {
  for (fs::path folder = fs::path(File(key)).parent_path(); !fs::exists(folder);
       folder = folder.parent_path()) {
    made_folders_.insert(folder.string());
  }
  fs::create_directories(fs::path(File(key)).parent_path());
  // A new file, since a test may have the old one open.
  fs::remove(File(key));
  std::ofstream(File(key), std::ios::binary) << bytes;
  writers_[key] = {TagOf(bytes), writer};
}

void FolderBucket::Remove(const std::string& key) {
  std::error_code ignored;
  fs::remove(File(key), ignored);
  for (fs::path folder = fs::path(File(key)).parent_path();
       made_folders_.contains(folder.string()) && fs::is_empty(folder, ignored) &&
       fs::remove(folder, ignored);
       folder = folder.parent_path()) {
    made_folders_.erase(folder.string());
  }
}

std::optional<FolderBucket::Object> FolderBucket::Find(const std::string& path) const {
  const std::string start = "/" + name_ + "/";
  if (!path.starts_with(start) || path.find("/../") != path.npos) return std::nullopt;
  const std::string key = path.substr(start.size());
  MutexLock lock(mutex_);
  const std::optional<Content> content = Read(key);
  if (!content) return std::nullopt;
  Object object = {
      .bytes = content->bytes, .tag = content->tag, .writer = "", .modified = content->modified};
  if (const auto it = writers_.find(key); it != writers_.end() && it->second.first == object.tag) {
    object.writer = it->second.second;
  }
  return object;
}

std::optional<std::string> FolderBucket::Answer(const SeenRequest& request) {
  const size_t mark = request.target.find('?');
  const std::string path = Unescape(request.target.substr(0, mark));
  Query query;
  for (size_t at = mark; at < request.target.size();) {
    const size_t end = std::min(request.target.find('&', at + 1), request.target.size());
    const std::string pair = request.target.substr(at + 1, end - at - 1);
    const size_t equals = std::min(pair.find('='), pair.size());
    query[Unescape(pair.substr(0, equals))] =
        Unescape(pair.substr(std::min(equals + 1, pair.size())));
    at = end;
  }
  const size_t slash = path.find('/', 1);
  const std::string key = slash == path.npos ? "" : path.substr(slash + 1);
  if (path.substr(1, slash == path.npos ? slash : slash - 1) != name_) {
    return Error(404, "NoSuchBucket");
  }
  const std::string id = Get(query, "uploadId");
  const std::string writer = HeaderOf(request, "x-amz-meta-shardfeed-writer");
  MutexLock lock(mutex_);
  if (request.method == "GET" || request.method == "HEAD") {
    if (query.contains("uploads")) return ListUploads(query);
    if (query.contains("list-type")) return List(query);
    return std::nullopt;
  }
  if (!id.empty() && !uploads_.contains(id)) return Error(404, "NoSuchUpload");
  if (request.method == "PUT" && !id.empty()) {
    uploads_[id].parts[std::strtoull(Get(query, "partNumber").c_str(), nullptr, 10)] = request.body;
    return HttpAnswer(200, fmt::format("ETag: {}\r\n", TagOf(request.body)), "");
  }
  if (request.method == "PUT") {
    if (HeaderOf(request, "if-none-match") == "*" && Read(key)) {
      return Error(412, "PreconditionFailed");
    }
    Write(key, request.body, writer);
    return HttpAnswer(200, fmt::format("ETag: {}\r\n", TagOf(request.body)), "");
  }
  if (request.method == "DELETE") {
    if (id.empty()) {
      Remove(key);
    } else {
      uploads_.erase(id);
    }
    return HttpAnswer(204, "", "");
  }
  if (request.method == "POST" && query.contains("uploads")) {
    const std::string name = fmt::format("upload-{:06}<&>", ++begun_);
    uploads_[name] = {.key = key, .writer = writer, .parts = {}};
    return HttpAnswer(200, "",
                      fmt::format("<InitiateMultipartUploadResult><UploadId>{}</UploadId>"
                                  "</InitiateMultipartUploadResult>",
                                  XmlEscape(name)));
  }
  if (request.method == "POST" && !id.empty()) return Complete(key, id, request.body);
  return Error(501, "NotImplemented");
}

std::string FolderBucket::Complete(const std::string& key, const std::string& id,
                                   const std::string& body) {
  const Upload& upload = uploads_[id];
  if (upload.key != key) return Error(404, "NoSuchUpload");
  const auto between = [&](std::string_view tag, size_t* at) {
    const std::string open = fmt::format("<{}>", tag);
    const size_t first = body.find(open, *at);
    if (first == body.npos) return std::string();
    const size_t end = body.find(fmt::format("</{}>", tag), first);
    *at = end;
    return XmlUnescape(body.substr(first + open.size(), end - first - open.size()));
  };
  std::string bytes;
  for (size_t at = 0;;) {
    const std::string number = between("PartNumber", &at);
    if (number.empty()) break;
    const auto part = upload.parts.find(std::strtoull(number.c_str(), nullptr, 10));
    if (part == upload.parts.end() || between("ETag", &at) != TagOf(part->second)) {
      return Error(400, "InvalidPart");
    }
    bytes += part->second;
  }
  Write(key, bytes, upload.writer);
  uploads_.erase(id);
  return HttpAnswer(200, "",
                    fmt::format("<CompleteMultipartUploadResult><ETag>{}</ETag>"
                                "</CompleteMultipartUploadResult>",
                                XmlEscape(TagOf(bytes))));
}

std::string FolderBucket::List(const Query& query) const {
  const std::string prefix = Get(query, "prefix");
  const std::string after = Get(query, "continuation-token");
  const std::string parent = prefix.substr(0, prefix.rfind('/') + 1);  // npos + 1 is 0
  std::set<std::string> keys;  // those of folders end with a slash
  std::error_code error;
  for (fs::directory_iterator it(File(parent), error), end; !error && it != end;
       it.increment(error)) {
    const std::string key = parent + it->path().filename().string();
    if (!key.starts_with(prefix)) continue;
    std::error_code ignored;
    if (it->is_regular_file(ignored)) keys.insert(key);
    if (!it->is_directory(ignored)) continue;
    for (const auto& below : fs::recursive_directory_iterator(it->path(), ignored)) {
      if (!below.is_regular_file(ignored)) continue;
      keys.insert(key + "/");
      break;
    }
  }
  std::string text;
  std::string last;
  size_t listed = 0;
  for (auto it = keys.upper_bound(after); it != keys.end() && listed < kPage; ++it, ++listed) {
    last = *it;
    if (last.ends_with('/')) {
      text += fmt::format("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", XmlEscape(last));
    } else if (const std::optional<Content> content = Read(last)) {
      text += fmt::format("<Contents><Key>{}</Key><Size>{}</Size><ETag>{}</ETag></Contents>",
                          XmlEscape(last), content->bytes->size(), XmlEscape(content->tag));
    }
  }
  const bool more = keys.upper_bound(last) != keys.end() && listed == kPage;
  return HttpAnswer(
      200, "",
      fmt::format(
          "<ListBucketResult><IsTruncated>{}</IsTruncated>{}{}</ListBucketResult>", more,
          more ? fmt::format("<NextContinuationToken>{}</NextContinuationToken>", XmlEscape(last))
               : "",
          text));
}

std::string FolderBucket::ListUploads(const Query& query) const {
  const std::string prefix = Get(query, "prefix");
  std::string text;
  for (const auto& [id, upload] : uploads_) {
    if (!upload.key.starts_with(prefix)) continue;
    text += fmt::format(
        "<Upload><Key>{}</Key><UploadId>{}</UploadId>"
        "<Initiated>2000-01-01T00:00:00.000Z</Initiated></Upload>",
        XmlEscape(upload.key), XmlEscape(id));
  }
  return HttpAnswer(200, "",
                    fmt::format("<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>{}"
                                "</ListMultipartUploadsResult>",
                                text));
}

}  // namespace shardfeed::testing
