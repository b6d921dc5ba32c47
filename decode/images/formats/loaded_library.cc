#include "decode/images/formats/loaded_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "fmt/format.h"

namespace shardfeed {
namespace {

// Only glibc leaves absolute addresses in the tables of a loaded library.
#if defined(__GLIBC__) && defined(__x86_64__)
constexpr uint32_t kAddressOfVariable = R_X86_64_GLOB_DAT;
#elif defined(__GLIBC__) && defined(__aarch64__)
constexpr uint32_t kAddressOfVariable = R_AARCH64_GLOB_DAT;
#else
constexpr uint32_t kAddressOfVariable = 0;  // none
#endif

// The slots of a loaded library that hold addresses of other libraries' variables, as ELF says.
struct Slots {
  const ElfW(Rela) * entries = nullptr;
  size_t count = 0;
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
};

Slots SlotsOf(const dl_phdr_info& library) {
  Slots slots;
  const ElfW(Dyn)* entry = nullptr;
  for (size_t i = 0; i < library.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = library.dlpi_phdr[i];
    if (segment.p_type != PT_DYNAMIC) continue;
    entry = reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + segment.p_vaddr);
  }
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_RELA) {
      slots.entries = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr);
    } else if (entry->d_tag == DT_RELASZ) {
      slots.count = entry->d_un.d_val / sizeof(ElfW(Rela));
    } else if (entry->d_tag == DT_SYMTAB) {
      slots.symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
    } else if (entry->d_tag == DT_STRTAB) {
      slots.names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    }
  }
  if (slots.entries == nullptr || slots.symbols == nullptr || slots.names == nullptr) return {};
  return slots;
}

// Makes the variable stderr that a library sees a stream that discards its output.
void Replace(const dl_phdr_info& library) {
  static FILE* nowhere = std::fopen("/dev/null", "we");
  if (nowhere == nullptr) return;
  const Slots slots = SlotsOf(library);
  for (size_t i = 0; i < slots.count; ++i) {
    const ElfW(Rela)& entry = slots.entries[i];
    const ElfW(Sym)& symbol = slots.symbols[ELF64_R_SYM(entry.r_info)];
    if (ELF64_R_TYPE(entry.r_info) != kAddressOfVariable ||
        std::strcmp(slots.names + symbol.st_name, "stderr") != 0) {
      continue;
    }
    // The linker has made the slots read-only. This page stays writable, since the rest of it may
    // have been writable before.
    const uintptr_t address = library.dlpi_addr + entry.r_offset;
    const auto page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    void* const page = reinterpret_cast<void*>(address / page_bytes * page_bytes);
    if (::mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return;
    *reinterpret_cast<FILE***>(address) = &nowhere;
    return;
  }
}

}  // namespace

absl::StatusOr<LoadedLibrary> LoadedLibrary::Open(const char* name, const char* file,
                                                  const char* package) {
  void* const handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return LoadedLibrary(handle);
  const char* const error = ::dlerror();
  return absl::FailedPreconditionError(
      fmt::format("{} is not installed ({}): install it (on Debian: apt-get install {}), or "
                  "convert such images to JPEG or PNG",
                  name, error != nullptr ? error : file, package));
}

void LoadedLibrary::Silence(std::string_view file) {
  if (kAddressOfVariable == 0) return;
  const auto visit = [](dl_phdr_info* library, size_t, void* wanted) {
    std::string_view name = library->dlpi_name;
    name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
    if (name.starts_with(*static_cast<std::string_view*>(wanted))) Replace(*library);
    return 0;
  };
  ::dl_iterate_phdr(visit, &file);
}

void* LoadedLibrary::Address(const char* name) {
  void* const address = ::dlsym(handle_, name);
  found_all_ &= address != nullptr;
  return address;
}

}  // namespace shardfeed
