#include "tests/net/fault_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <utility>

#include "fmt/format.h"
#include "tests/net/folder_bucket.h"

namespace shardfeed::testing {
namespace {

// Without copying them, so that a benchmark measures its clients.
bool SendFile(int fd, const std::string& path, uint64_t first, uint64_t end) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  auto at = static_cast<off_t>(first);
  while (file >= 0 && at < static_cast<off_t>(end)) {
    if (::sendfile(fd, file, &at, end - static_cast<uint64_t>(at)) <= 0) break;
  }
  if (file >= 0) ::close(file);
  return at == static_cast<off_t>(end);
}

std::string HttpDate(std::time_t time) {
  std::tm parts{};
  char text[40];
  return {text, std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT",
                              ::gmtime_r(&time, &parts))};
}

bool Send(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

FaultServer::FaultServer() {
  std::signal(SIGPIPE, SIG_IGN);  // sendfile has no flag for it
  listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listening_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (::bind(listening_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listening_, 256) != 0 ||
      ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::perror("fault server");
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  url_ = fmt::format("http://127.0.0.1:{}", port_);
  accepting_ = std::thread([this] { Accept(); });
}

FaultServer::~FaultServer() {
  stopping_ = true;
  ::shutdown(listening_, SHUT_RDWR);
  accepting_.join();
  ::close(listening_);
  {
    MutexLock lock(mutex_);
    for (int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
}

void FaultServer::Put(const std::string& path, std::string bytes, std::time_t modified) {
  MutexLock lock(mutex_);
  const std::string tag =
      fmt::format("\"{:x}-{:x}\"", bytes.size(), std::hash<std::string>()(bytes));
  const uint64_t size = bytes.size();
  objects_[path] = {.bytes = std::move(bytes), .tag = tag, .size = size, .modified = modified};
}
void FaultServer::Remove(const std::string& path) {
  MutexLock lock(mutex_);
  objects_.erase(path);
}
void FaultServer::ServeFolder(const std::string& folder) {
  MutexLock lock(mutex_);
  folder_ = folder;
}
void FaultServer::ServeBucket(const std::string& name, const std::string& folder) {
  MutexLock lock(mutex_);
  bucket_ = std::make_shared<FolderBucket>(name, folder);
}
void FaultServer::SetFaults(Decide decide) {
  MutexLock lock(mutex_);
  decide_ = std::move(decide);
}
void FaultServer::SetAnswers(Answer answer) {
  MutexLock lock(mutex_);
  answer_ = std::move(answer);
}
std::vector<SeenRequest> FaultServer::requests() const {
  MutexLock lock(mutex_);
  return requests_;
}
size_t FaultServer::connections() const {
  MutexLock lock(mutex_);
  return open_.size();
}
void FaultServer::ForgetRequests() {
  MutexLock lock(mutex_);
  requests_.clear();
}

void FaultServer::Accept() {
  while (!stopping_) {
    const int fd = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    // The body of an answer does not wait for the client to confirm its head, which takes 40 ms.
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    MutexLock lock(mutex_);
    open_.insert(fd);
    threads_.emplace_back([this, fd] {
      Serve(fd);
      MutexLock done(mutex_);
      open_.erase(fd);
      ::close(fd);
    });
  }
}

void FaultServer::Serve(int fd) {
  std::string data;
  while (!stopping_) {
    size_t end;
    while ((end = data.find("\r\n\r\n")) == data.npos) {
      char buffer[4096];
      const ssize_t n = ::recv(fd, buffer, sizeof(buffer), 0);
      if (n <= 0) return;
      data.append(buffer, static_cast<size_t>(n));
    }
    SeenRequest request;
    std::istringstream lines(data.substr(0, end));
    data.erase(0, end + 4);
    std::string line;
    std::getline(lines, line);
    const size_t space = line.find(' ');
    request.method = line.substr(0, space);
    request.target = line.substr(space + 1, line.find(' ', space + 1) - space - 1);
    while (std::getline(lines, line)) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      const size_t colon = line.find(':');
      if (colon == line.npos) continue;
      std::string name = line.substr(0, colon);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      request.headers[name] = line.substr(std::min(line.size(), colon + 2));
    }
    const size_t length = std::strtoull(request.headers["content-length"].c_str(), nullptr, 10);
    while (data.size() < length) {
      char buffer[4096];
      const ssize_t n = ::recv(fd, buffer, sizeof(buffer), 0);
      if (n <= 0) return;
      data.append(buffer, static_cast<size_t>(n));
    }
    request.body = data.substr(0, length);
    data.erase(0, length);
    if (!Respond(fd, std::move(request))) return;
  }
}

std::optional<FaultServer::Object> FaultServer::Find(const std::string& path) const {
  std::string folder;
  std::shared_ptr<const FolderBucket> bucket;
  {
    MutexLock lock(mutex_);
    if (const auto it = objects_.find(path); it != objects_.end()) return it->second;
    folder = folder_;
    bucket = bucket_;
  }
  if (bucket != nullptr) {
    std::optional<FolderBucket::Object> found = bucket->Find(path);
    if (!found) return std::nullopt;
    return Object{.bytes = "",
                  .shared = found->bytes,
                  .tag = found->tag,
                  .file = "",
                  .size = found->bytes->size(),
                  .writer = found->writer,
                  .modified = found->modified};
  }
  if (folder.empty() || path.find("..") != path.npos) return std::nullopt;
  const std::string name = folder + path;
  struct stat info;
  if (::stat(name.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return Object{.tag = fmt::format("\"{:x}-{:x}\"", info.st_size,
                                   info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec),
                .file = name,
                .size = static_cast<uint64_t>(info.st_size),
                .modified = info.st_mtim.tv_sec};
}

std::string FaultServer::Object::Part(uint64_t first, uint64_t end) const {
  if (shared != nullptr) return shared->substr(first, end - first);
  if (file.empty()) return bytes.substr(first, end - first);
  std::string part(end - first, '\0');
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  size_t done = 0;
  while (fd >= 0 && done < part.size()) {
    const ssize_t n =
        ::pread(fd, part.data() + done, part.size() - done, static_cast<off_t>(first + done));
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  if (fd >= 0) ::close(fd);
  return part;
}

// Returns whether to keep the connection.
bool FaultServer::Respond(int fd, SeenRequest request) {
  Decide decide;
  Answer answer;
  std::shared_ptr<FolderBucket> bucket;
  {
    MutexLock lock(mutex_);
    request.number = requests_.size();
    requests_.push_back(request);
    if (bucket_ != nullptr) requests_.back().body.clear();  // may be a lot
    decide = decide_;
    answer = answer_;
    bucket = bucket_;
  }
  if (answer) {
    if (const std::optional<std::string> text = answer(request)) return Send(fd, *text);
  }
  Fault fault = decide ? decide(request) : Fault();
  if (fault.kind == Fault::kDelay) std::this_thread::sleep_for(fault.wait);
  if (fault.kind == Fault::kReset) return false;
  if (fault.kind == Fault::kGarbage) {
    Send(fd, "this is not HTTP\n");
    return false;
  }
  if (fault.kind == Fault::kStatus) {
    return Send(fd, fmt::format("HTTP/1.1 {} Fault\r\n{}Content-Length: {}\r\n\r\n{}", fault.status,
                                fault.headers, fault.body.size(),
                                request.method == "HEAD" ? "" : fault.body));
  }
  if (bucket != nullptr) {
    if (const std::optional<std::string> text = bucket->Answer(request)) return Send(fd, *text);
  }
  const std::string path = Unescape(request.target.substr(0, request.target.find('?')));
  const std::optional<Object> object = Find(path);
  if (!object) return Send(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
  const bool ignores_match = fault.kind == Fault::kIgnoreMatch;
  std::string tag = fault.kind == Fault::kOtherTag || ignores_match ? "\"other\"" : object->tag;
  if (const auto it = request.headers.find("if-match");
      it != request.headers.end() && it->second != tag && !ignores_match) {
    return Send(fd, "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n");
  }
  uint64_t first = 0;
  uint64_t last = object->size == 0 ? 0 : object->size - 1;
  const auto range = request.headers.find("range");
  const bool ranged = range != request.headers.end() && fault.kind != Fault::kIgnoreRange &&
                      std::sscanf(range->second.c_str(), "bytes=%lu-%lu", &first, &last) == 2;
  if (ranged && first >= object->size) {
    return Send(fd, "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n");
  }
  if (fault.kind == Fault::kWrongRange && last + 1 < object->size) {
    ++first;
    ++last;
  }
  last = std::min<uint64_t>(last, object->size == 0 ? 0 : object->size - 1);
  const bool empty = object->size == 0 || request.method == "HEAD";
  const bool cut = fault.kind == Fault::kShort || fault.kind == Fault::kStall ||
                   fault.kind == Fault::kLongBody || fault.kind == Fault::kSlow;
  const bool from_file = !object->file.empty() && !cut;
  const std::string body = empty || from_file ? "" : object->Part(first, last + 1);
  std::string head = fmt::format("HTTP/1.1 {}\r\n", ranged ? "206 Partial Content" : "200 OK");
  if (ranged) {
    head += fmt::format("Content-Range: bytes {}-{}/{}\r\n", first, last, object->size);
  }
  if (!object->writer.empty()) {
    head += fmt::format("x-amz-meta-shardfeed-writer: {}\r\n", object->writer);
  }
  if (object->modified != 0) {
    head += fmt::format("Date: {}\r\nLast-Modified: {}\r\n", HttpDate(std::time(nullptr)),
                        HttpDate(object->modified));
  }
  if (fault.kind == Fault::kEncoded) head += "Content-Encoding: gzip\r\n";
  if (fault.kind != Fault::kNoTag) head += fmt::format("ETag: {}\r\n", tag);
  if (fault.kind == Fault::kLongBody) {
    return Send(fd, head + "Connection: close\r\n\r\n") && Send(fd, body) && Send(fd, "more") &&
           false;
  }
  head += fmt::format("Content-Length: {}\r\n\r\n", object->size == 0 ? 0 : last + 1 - first);
  if (!Send(fd, head)) return false;
  if (request.method == "HEAD") return true;
  if (fault.kind == Fault::kShort || fault.kind == Fault::kStall) {
    Send(fd, body.substr(0, body.size() / 2));
    const auto until = std::chrono::steady_clock::now() + fault.wait;
    while (fault.kind == Fault::kStall && !stopping_ && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  if (fault.kind == Fault::kSlow) {
    constexpr size_t kPieces = 10;
    const size_t piece = body.size() / kPieces + 1;
    for (size_t at = 0; at < body.size(); at += piece) {
      std::this_thread::sleep_for(fault.wait / kPieces);
      if (!Send(fd, std::string_view(body).substr(at, piece))) return false;
    }
    return true;
  }
  if (from_file && !empty) return SendFile(fd, object->file, first, last + 1);
  return Send(fd, body);
}

}  // namespace shardfeed::testing
