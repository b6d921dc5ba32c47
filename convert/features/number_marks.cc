#include "convert/features/number_marks.h"

#include <algorithm>
#include <cstdint>

#include "convert/features/column.h"

namespace shardfeed {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// How many bytes a mark of numbers has at `at`, and which one it is: a point, a comma, or one of
// kOtherThousands. The spaces U+00A0, U+202F and U+2009 are blanks, and U+2019 is an apostrophe, as
// typesetters and spreadsheets write them. 0: none.
size_t MarkAt(std::string_view text, size_t at, char* mark) {
  *mark = text[at];
  if (*mark == '.' || *mark == ',') return 1;
  if (std::ranges::find(kOtherThousands, *mark) != kOtherThousands.end()) return 1;
  const std::string_view rest = text.substr(at);
  *mark = rest.starts_with("\u2019") ? '\'' : ' ';
  if (rest.starts_with("\u00a0")) return 2;
  return *mark == '\'' || rest.starts_with("\u202f") || rest.starts_with("\u2009") ? 3 : 0;
}

bool EndsWithExponent(std::string_view rest) {
  if (rest.empty()) return true;
  if (rest.front() != 'e' && rest.front() != 'E') return false;
  rest.remove_prefix(1);
  if (rest.starts_with('-') || rest.starts_with('+')) rest.remove_prefix(1);
  return !rest.empty() && std::ranges::all_of(rest, IsDigit);
}

}  // namespace

std::optional<char> MarkOf(std::string_view text) {
  char mark;
  if (text.empty() || MarkAt(text, 0, &mark) != text.size()) return std::nullopt;
  return mark;
}

std::string_view WithoutPlus(std::string_view text) {
  const bool plus = text.size() > 1 && text[0] == '+' && (IsDigit(text[1]) || text[1] == '.');
  return plus ? text.substr(1) : text;
}

Writing WritingOf(std::string_view text, char decimal) {
  size_t at = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  size_t group = 0;  // digits since the last mark
  size_t first_group = 0;
  size_t marks = 0;
  char first_mark = '\0';
  char mark = '\0';
  for (; at < text.size(); ++at, ++group) {
    if (IsDigit(text[at])) continue;
    const size_t bytes = MarkAt(text, at, &mark);
    if (bytes == 0) break;
    if (marks > 0 && (group != 3 || (mark != first_mark && mark != '.' && mark != ','))) {
      return Writing::kOther;
    }
    if (marks++ == 0) {
      first_mark = mark;
      first_group = group;
    }
    at += bytes - 1;
    group = SIZE_MAX;  // becomes 0
    if (mark == first_mark) continue;
    // A second mark is the decimal one.
    for (++at; at < text.size() && IsDigit(text[at]);) ++at;
    group = 3;
    break;
  }
  const bool may_be_decimal = marks == 1 && (first_mark == '.' || first_mark == ',');
  if (marks == 0 ? group == 0 : may_be_decimal ? first_group + group == 0 : group != 3) {
    return Writing::kOther;
  }
  if (marks > 0 && !may_be_decimal && (first_group == 0 || first_group > 3)) {
    return Writing::kOther;
  }
  if (!EndsWithExponent(text.substr(at))) return Writing::kOther;
  return marks == 0 || (may_be_decimal && first_mark == decimal) ? Writing::kPlain
                                                                 : Writing::kMarked;
}

std::optional<std::string_view> WithPlainMarks(std::string_view text, char decimal, char thousands,
                                               std::string* scratch) {
  scratch->clear();
  size_t at = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  scratch->append(text, 0, at);
  size_t group = 0;  // digits since the last mark
  bool grouped = false;
  while (at < text.size()) {
    if (IsDigit(text[at])) {
      ++group;
      scratch->push_back(text[at++]);
      continue;
    }
    char mark;
    const size_t bytes = thousands == '\0'       ? 0
                         : text[at] == thousands ? 1
                                                 : MarkAt(text, at, &mark);
    if (bytes == 0 || (text[at] != thousands && mark != thousands)) break;
    if (grouped ? group != 3 : group == 0 || group > 3) return std::nullopt;
    grouped = true;
    group = 0;
    at += bytes;
  }
  if (grouped && group != 3) return std::nullopt;
  if (at < text.size() && text[at] == decimal) {
    scratch->push_back('.');
    ++at;
  }
  const std::string_view rest = text.substr(at);
  // Nobody groups digits before an exponent: 1,344e+00 has a decimal mark.
  if (grouped && !rest.empty() && (rest.front() == 'e' || rest.front() == 'E')) return std::nullopt;
  // Another point is no decimal mark, and marks in a fraction have no meaning.
  if (rest.find('.') != rest.npos || rest.find(decimal) != rest.npos) return std::nullopt;
  scratch->append(rest);
  return *scratch;
}

bool IsNumberWith(std::string_view text, char decimal, char thousands) {
  thread_local std::string scratch;
  const std::optional<std::string_view> plain = WithPlainMarks(text, decimal, thousands, &scratch);
  return plain && KindOfText(WithoutPlus(*plain)) != ColumnKind::kBytes;
}

bool IsWrittenAsNumber(std::string_view text) {
  return WritingOf(text, '.') != Writing::kOther || WritingOf(text, ',') != Writing::kOther;
}

}  // namespace shardfeed
