#include "convert/input/json_defect.h"

#include <cstdint>

#include "base/excerpt.h"
#include "convert/input/json_numbers.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace shardfeed {
namespace {

// Finds the first defect from the parser's events; keeps no values.
class DefectFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  const JsonDefect& defect() const { return defect_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }

  bool key(string_t&) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }

  bool parse_error(size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& error) override {
    defect_.column = position;
    // "[json.exception...] parse error at line 1, column 8: WHAT; last read: 'TOKEN'", where TOKEN
    // can be as long as the line.
    std::string_view what = error.what();
    if (const size_t name_end = what.find("] "); name_end != what.npos) {
      what.remove_prefix(name_end + 2);
    }
    if (const size_t place = what.find(", column "); place != what.npos) {
      if (const size_t colon = what.find(": ", place); colon != what.npos) {
        what.remove_prefix(colon + 2);
      }
    }
    what = what.substr(0, what.find("; last read: "));
    defect_.what = Shortened(std::string(what));
    if (!last_token.empty()) {
      // The defect is at the end of the token.
      std::string_view token = last_token;
      constexpr size_t kShown = 40;
      const bool cut = token.size() > kShown;
      if (cut) token.remove_prefix(token.size() - kShown);
      while (cut && !token.empty() && (token[0] & 0xc0) == 0x80) token.remove_prefix(1);
      defect_.what += fmt::format("; last read: {}{}", cut ? "..." : "", Excerpt(token));
    }
    return false;
  }

 private:
  static std::string Shortened(std::string text) {
    constexpr size_t kShown = 200;
    if (text.size() > kShown) text = text.substr(0, kShown) + "...";
    return text;
  }

  JsonDefect defect_;
};

}  // namespace

JsonDefect FindJsonDefect(std::string_view line, std::string_view refusal) {
  DefectFinder finder;
  const std::string text = WithoutNonFinite(line);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &finder)) {
    return {0, std::string(refusal)};
  }
  return finder.defect();
}

}  // namespace shardfeed
