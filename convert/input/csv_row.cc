#include "convert/input/csv_row.h"

#include <bit>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace shardfeed {
namespace {

// Returns the first delimiter or line break (either character of it) in [at, end), or end. Cells
// are short, so 16 bytes at a time are worthwhile and longer vectors are not.
const char* FindCellEnd(const char* at, const char* end, char delimiter) {
#ifdef __SSE2__
  const __m128i delimiters = _mm_set1_epi8(delimiter);
  const __m128i lfs = _mm_set1_epi8('\n');
  const __m128i crs = _mm_set1_epi8('\r');
  for (; end - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i found =
        _mm_or_si128(_mm_cmpeq_epi8(bytes, delimiters),
                     _mm_or_si128(_mm_cmpeq_epi8(bytes, lfs), _mm_cmpeq_epi8(bytes, crs)));
    const unsigned mask = _mm_movemask_epi8(found);
    if (mask != 0) return at + std::countr_zero(mask);
  }
#endif
  while (at < end && *at != delimiter && *at != '\n' && *at != '\r') ++at;
  return at;
}

template <bool skip_blanks>
CsvSplit Split(std::string_view text, bool at_end, CsvDialect dialect,
               std::vector<CsvCell>* cells) {
  const char delimiter = dialect.delimiter;
  cells->clear();
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const char* at = begin;
  while (true) {
    CsvCell cell;
    if constexpr (skip_blanks) {
      while (at < end && (*at == ' ' || *at == '\t') && *at != delimiter) ++at;
    }
    if (at < end && *at == '"' && dialect.quotes) {
      const char* const open = at++;
      const char* const content = at;
      while (true) {
        const void* quote = at < end ? std::memchr(at, '"', end - at) : nullptr;
        if (quote == nullptr) {
          if (!at_end) return {CsvSplit::kIncomplete, 0};
          return {CsvSplit::kOpenQuote, static_cast<size_t>(open - begin)};
        }
        at = static_cast<const char*>(quote) + 1;
        // The next character decides whether the quote closes.
        if (at == end && !at_end) return {CsvSplit::kIncomplete, 0};
        if (at == end || *at != '"') break;
        cell.doubled_quotes = true;
        ++at;
      }
      cell.text = std::string_view(content, at - 1 - content);
      if constexpr (skip_blanks) {
        while (at < end && (*at == ' ' || *at == '\t') && *at != delimiter) ++at;
      }
      if (at < end && *at != delimiter && *at != '\n' && *at != '\r') {
        return {CsvSplit::kAfterQuote, static_cast<size_t>(at - begin)};
      }
    } else {
      const char* const content = at;
      at = FindCellEnd(at, end, delimiter);
      cell.text = std::string_view(content, at - content);
    }
    if (at == end && !at_end) return {CsvSplit::kIncomplete, 0};
    if (at < end && *at == '\r') {
      if (at + 1 == end && !at_end) return {CsvSplit::kIncomplete, 0};
      if (at + 1 < end && at[1] != '\n') {
        return {CsvSplit::kLoneCr, static_cast<size_t>(at - begin)};
      }
      ++at;  // stops at the line feed, or at the end of a last line without one
    }
    cells->push_back(cell);
    if (at == end) return {CsvSplit::kRow, text.size()};
    if (*at++ == '\n') return {CsvSplit::kRow, static_cast<size_t>(at - begin)};
  }
}

}  // namespace

CsvSplit SplitCsvRow(std::string_view text, bool at_end, CsvDialect dialect,
                     std::vector<CsvCell>* cells) {
  // Almost no file has such blanks, so others do not look for them at each cell.
  return dialect.skip_blanks ? Split<true>(text, at_end, dialect, cells)
                             : Split<false>(text, at_end, dialect, cells);
}

void UndoubleQuotes(std::string_view text, std::string* out) {
  while (true) {
    const size_t quote = text.find('"');
    if (quote == std::string_view::npos) break;
    out->append(text, 0, quote + 1);
    text.remove_prefix(std::min(quote + 2, text.size()));
  }
  out->append(text);
}

std::string_view WithoutLineBreak(std::string_view row) {
  if (row.ends_with('\n')) row.remove_suffix(1);
  if (row.ends_with('\r')) row.remove_suffix(1);
  return row;
}

}  // namespace shardfeed
