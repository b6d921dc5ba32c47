// Runs a fuzz target without libFuzzer: over the kept corpus, and over mutations of each file,
// which are the same in every run.
//
//   NAME_fuzz_test MUTATIONS FILE...
//
// A finding ends the process; the file and the number of the mutation are printed first.

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

const char* current_file = "";
int current_mutation = 0;

// Also called by a signal handler, where little more than writing is allowed.
void TellInput(int signal) {
  std::fprintf(stderr, "fuzz replay: signal %d in mutation %d of %s (0 is the file itself)\n",
               signal, current_mutation, current_file);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void Run(const std::string& input) {
  // In memory of exactly this size, so that AddressSanitizer detects any read past the end.
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[input.size()]);
  if (!input.empty()) std::memcpy(exact.get(), input.data(), input.size());
  LLVMFuzzerTestOneInput(exact.get(), input.size());
}

std::string Mutate(std::string bytes, std::mt19937& random) {
  static constexpr unsigned char kEdges[] = {0, 1, 0x7f, 0x80, 0xff, '"', '\n', ','};
  for (int changes = 1 + random() % 4; changes > 0 && !bytes.empty(); --changes) {
    const size_t at = random() % bytes.size();
    switch (random() % 6) {
      case 0:
        bytes[at] ^= 1 << random() % 8;
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes[at] = static_cast<char>(kEdges[random() % std::size(kEdges)]);
        break;
      case 3:
        bytes.erase(at, 1 + random() % 8);
        break;
      case 4: {
        // Not as arguments, whose order of evaluation differs between processors.
        const size_t from = random() % bytes.size();
        const size_t count = 1 + random() % 16;
        bytes.insert(at, bytes.substr(from, count));
        break;
      }
      default:
        if (random() % 4 == 0) bytes.resize(at);
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s MUTATIONS FILE...\n", argv[0]);
    return 2;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE}) {
#if defined(__SANITIZE_ADDRESS__)
    if (signal != SIGABRT) continue;  // AddressSanitizer tells more.
#endif
    std::signal(signal, TellInput);
  }
  const int mutations = std::atoi(argv[1]);
  for (int i = 2; i < argc; ++i) {
    current_file = argv[i];
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "fuzz replay: cannot read %s\n", argv[i]);
      return 3;
    }
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    std::mt19937 random(1);
    for (current_mutation = 0; current_mutation <= mutations; ++current_mutation) {
      Run(current_mutation == 0 ? bytes : Mutate(bytes, random));
    }
  }
  return 0;
}
