// A corpus of tables as people have them, written in all dialects: the share that is guessed right.

#include <cstddef>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "convert/features/csv_guess.h"
#include "fmt/format.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

enum class Quoting { kNone, kMinimal, kTexts, kAll };

// How a table is written.
struct Dialect {
  char delimiter;
  Quoting quoting;
  char decimal;
  bool header;
  bool comments;
  bool blanks;  // after delimiters
  std::string missing;
  std::string line_end;
};

// A cell before it is written. A number has a point as its decimal mark.
struct Value {
  enum Sort { kText, kNumber, kMissing } sort;
  std::string text;
};

Value Text(std::string text) { return {Value::kText, std::move(text)}; }
Value Number(std::string text) { return {Value::kNumber, std::move(text)}; }
Value Missing() { return {Value::kMissing, ""}; }

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  int64_t Integer(int64_t from, int64_t to) {
    return from + static_cast<int64_t>(engine_() % static_cast<uint64_t>(to - from + 1));
  }
  bool OneOf(int count) { return Integer(1, count) == 1; }
  std::string Decimal(int64_t from, int64_t to, int digits) {
    return fmt::format("{:.{}f}", static_cast<double>(Integer(from * 1000, to * 1000)) / 1000,
                       digits);
  }
  std::string Of(const std::vector<std::string>& texts) {
    return texts[static_cast<size_t>(Integer(0, static_cast<int64_t>(texts.size()) - 1))];
  }

 private:
  std::mt19937 engine_;
};

struct Table {
  std::string name;
  std::vector<std::string> names;
  std::function<std::vector<Value>(Random&, int row)> row;
  bool all_text = false;  // so that nothing tells whether the first row has names
};

const std::vector<std::string> kCities = {"Bonn", "Oslo", "São Paulo", "New York", "Köln"};

std::string DateOf(Random& random) {
  return fmt::format("2024-{:02}-{:02}", random.Integer(1, 12), random.Integer(1, 28));
}

std::vector<Table> Tables() {
  std::vector<std::string> genes = {"gene"};
  for (int i = 1; i <= 20; ++i) genes.push_back(fmt::format("sample_{}", i));
  std::vector<std::string> years = {"country", "code"};
  for (int year = 1990; year < 2000; ++year) years.push_back(fmt::to_string(year));
  return {
      {"people",
       {"name", "age", "height", "member"},
       [](Random& r, int) -> std::vector<Value> {
         return {Text(r.Of({"Jane Doe", "Doe, Jane", "O'Brien", "Zoë", "J. R. \"Bob\" Dobbs"})),
                 r.OneOf(8) ? Missing() : Number(fmt::to_string(r.Integer(1, 99))),
                 Number(r.Decimal(1, 2, 2)), Text(r.Of({"yes", "no"}))};
       }},
      {"passengers",
       {"id", "survived", "class", "name", "sex", "age", "ticket", "fare", "cabin"},
       [](Random& r, int row) -> std::vector<Value> {
         return {Number(fmt::to_string(row + 1)),
                 Number(fmt::to_string(r.Integer(0, 1))),
                 Number(fmt::to_string(r.Integer(1, 3))),
                 Text(r.Of({"Braund, Mr. Owen Harris", "Heikkinen, Miss. Laina",
                            "Cumings, Mrs. John (Florence Briggs)"})),
                 Text(r.Of({"male", "female"})),
                 r.OneOf(5) ? Missing() : Number(fmt::to_string(r.Integer(1, 80))),
                 Text(r.Of({"A/5 21171", "PC 17599", "STON/O2. 3101282"})),
                 Number(r.Decimal(5, 99, 4)),
                 r.OneOf(2) ? Missing() : Text(r.Of({"C85", "E46"}))};
       }},
      {"weather",
       {"station", "date", "time", "degrees", "rain", "wind"},
       [](Random& r, int) -> std::vector<Value> {
         return {Text(r.Of(kCities)),
                 Text(DateOf(r)),
                 Text(fmt::format("{:02}:{:02}", r.Integer(0, 23), r.Integer(0, 59))),
                 Number(r.Decimal(-20, 35, 1)),
                 r.OneOf(4) ? Missing() : Number(r.Decimal(0, 20, 1)),
                 Number(r.Decimal(0, 90, 2))};
       }},
      {"orders",
       {"order", "product", "price", "count", "date"},
       [](Random& r, int row) -> std::vector<Value> {
         return {Number(fmt::to_string(10000 + row)),
                 Text(r.Of({"chair", "table, round", "lamp; small", "desk|left", "shelf 2x4"})),
                 Number(r.Decimal(1, 999, 2)), Number(fmt::to_string(r.Integer(1, 9))),
                 Text(DateOf(r))};
       }},
      {"requests",
       {"time", "level", "path", "milliseconds", "agent", "status"},
       [](Random& r, int) -> std::vector<Value> {
         return {
             Text(fmt::format("{}T{:02}:00:00Z", DateOf(r), r.Integer(0, 23))),
             Text(r.Of({"INFO", "WARN", "ERROR"})),
             Text(r.Of({"/a?b=1&c=2", "/index.html", "/x;v=1/y", "/q?l=1|2"})),
             Number(fmt::to_string(r.Integer(1, 5000))),
             Text(r.Of({"Mozilla/5.0 (X11; Linux x86_64; rv:1)", "curl/8.1", "bot, version 2"})),
             Number(r.Of({"200", "404", "500"}))};
       }},
      {"addresses",
       {"name", "street", "zip", "city", "lat", "lon"},
       [](Random& r, int) -> std::vector<Value> {
         return {Text(r.Of({"Doe", "Roe", "Müller"})),
                 Text(r.Of({"5 Main St", "5 lane, Anytown", "Am Ring 3", "c/o X; 2nd floor"})),
                 Text(fmt::format("{:05}", r.Integer(1000, 99999))),
                 Text(r.Of(kCities)),
                 Number(r.Decimal(-90, 90, 6)),
                 Number(r.Decimal(-180, 180, 6))};
       }},
      {"years", years,
       [](Random& r, int) -> std::vector<Value> {
         std::vector<Value> row = {Text(r.Of({"Aruba", "Chad", "Korea, Rep.", "Oman"})),
                                   Text(r.Of({"ABW", "TCD", "KOR", "OMN"}))};
         for (int i = 0; i < 10; ++i) row.push_back(Number(r.Decimal(1, 99, 2)));
         return row;
       }},
      {"sensor",
       {"t", "x", "y", "z"},
       [](Random& r, int row) -> std::vector<Value> {
         return {Number(fmt::format("{}.5", 1700000000 + row)), Number(r.Decimal(-5, 5, 3)),
                 Number(r.Decimal(-5, 5, 4)), r.OneOf(6) ? Missing() : Number(r.Decimal(-1, 1, 5))};
       }},
      {"genes", genes,
       [](Random& r, int row) -> std::vector<Value> {
         std::vector<Value> cells = {Text(fmt::format("ENSG{:08}", row))};
         for (int i = 0; i < 20; ++i) cells.push_back(Number(fmt::to_string(r.Integer(0, 999))));
         return cells;
       }},
      {"words",
       {"key", "text", "language"},
       [](Random& r, int row) -> std::vector<Value> {
         return {Text(fmt::format("k{}", row)),
                 Text(r.Of({"Hello, world", "so; what", "a|b", "two words", "x"})),
                 Text(r.Of({"de", "fr"}))};
       },
       /*all_text=*/true},
  };
}

// Writes a cell; false if the dialect cannot.
bool Write(const Value& value, const Dialect& dialect, std::string* out) {
  std::string text = value.sort == Value::kMissing ? dialect.missing : value.text;
  if (value.sort == Value::kNumber) {
    if (const size_t point = text.find('.'); point != text.npos) text[point] = dialect.decimal;
  }
  const bool special = text.find_first_of(std::string("\"\n") + dialect.delimiter) != text.npos;
  const bool quoted = dialect.quoting == Quoting::kAll ||
                      (dialect.quoting == Quoting::kTexts && value.sort == Value::kText) ||
                      (dialect.quoting != Quoting::kNone && special);
  if (special && !quoted) return false;
  if (!quoted) {
    *out += text;
    return true;
  }
  *out += '"';
  for (const char c : text) *out += c == '"' ? std::string("\"\"") : std::string(1, c);
  *out += '"';
  return true;
}

bool Write(const std::vector<Value>& row, const Dialect& dialect, std::string* out) {
  for (size_t i = 0; i < row.size(); ++i) {
    if (i > 0) *out += dialect.delimiter;
    if (i > 0 && dialect.blanks) *out += ' ';
    if (!Write(row[i], dialect, out)) return false;
  }
  *out += dialect.line_end;
  return true;
}

// Returns an empty text if the dialect cannot write the table.
std::string Written(const Table& table, const Dialect& dialect, int rows, unsigned seed) {
  std::string text;
  if (dialect.comments) {
    text += fmt::format("# {}, made by a station; see the manual{}# version 1|2{}", table.name,
                        dialect.line_end, dialect.line_end);
  }
  if (dialect.header) {
    std::vector<Value> names;
    for (const std::string& name : table.names) names.push_back(Text(name));
    if (!Write(names, dialect, &text)) return "";
  }
  Random random(seed);
  for (int row = 0; row < rows; ++row) {
    if (!Write(table.row(random, row), dialect, &text)) return "";
  }
  return text;
}

// The guess, or what it should be.
std::string Described(char delimiter, bool header, char decimal, bool blanks, bool comments) {
  return fmt::format("{} {}header, decimal {}{}{}",
                     delimiter == '\t' ? "tab" : std::string(1, delimiter), header ? "" : "no ",
                     decimal, blanks ? ", blanks" : "", comments ? ", comments" : "");
}

std::string Guessed(std::string_view text) {
  const CsvStart start = FindCsvStart(text, /*at_end=*/true, /*comments=*/true);
  text.remove_prefix(start.bytes);
  const CsvGuess guess = GuessCsv(text, /*at_end=*/true, {});
  return Described(guess.dialect.delimiter, guess.header, guess.decimal, guess.dialect.skip_blanks,
                   start.comments > 0);
}

class Shares {
 public:
  void Add(const std::string& of, bool right) {
    ++counts_[of].second;
    counts_[of].first += right ? 1 : 0;
  }
  double Of(const std::string& of) const {
    const auto& [right, all] = counts_.at(of);
    return static_cast<double>(right) / all;
  }
  std::string Text() const {
    std::string text;
    for (const auto& [of, count] : counts_) {
      text += fmt::format("{:24} {:5} of {:5}, {:.2f} %\n", of, count.first, count.second,
                          100.0 * count.first / count.second);
    }
    return text;
  }
  int NumOf(const std::string& of) const { return counts_.at(of).second; }

 private:
  std::map<std::string, std::pair<int, int>> counts_;
};

TEST(CsvCorpusTest, AlmostAllDialectsAreGuessed) {
  const std::vector<std::string> missing = {"", "NA", "null", "-", "NaN"};
  Shares shares;
  std::vector<std::string> wrong;
  unsigned number = 0;
  for (const Table& table : Tables()) {
    for (const char delimiter : {',', ';', '\t', '|'}) {
      for (const Quoting quoting :
           {Quoting::kNone, Quoting::kMinimal, Quoting::kTexts, Quoting::kAll}) {
        // Header, comments, blanks, decimal comma.
        for (int options = 0; options < 16; ++options) {
          for (const int rows : {3, 20, 150}) {
            ++number;
            Dialect dialect{.delimiter = delimiter,
                            .quoting = quoting,
                            .decimal = (options & 1) != 0 ? ',' : '.',
                            .header = (options & 2) != 0,
                            .comments = (options & 4) != 0,
                            .blanks = (options & 8) != 0,
                            .missing = missing[number % missing.size()],
                            .line_end = number % 2 == 0 ? "\n" : "\r\n"};
            // A decimal comma beside commas has to be named, and a table of text has names.
            if (delimiter == ',' && dialect.decimal == ',') continue;
            if (table.all_text && !dialect.header) continue;
            const std::string text = Written(table, dialect, rows, number);
            if (text.empty()) continue;
            const bool has_fractions =
                table.name != "requests" && table.name != "genes" && table.name != "words";
            const std::string expected =
                Described(delimiter, dialect.header, has_fractions ? dialect.decimal : '.',
                          dialect.blanks, dialect.comments);
            const std::string guessed = Guessed(text);
            const bool right = guessed == expected;
            shares.Add("all", right);
            shares.Add("table " + table.name, right);
            shares.Add(
                fmt::format("delimiter {}", delimiter == '\t' ? "tab" : std::string(1, delimiter)),
                right);
            shares.Add(dialect.header ? "header" : "no header", right);
            shares.Add(dialect.blanks ? "blanks" : "no blanks", right);
            shares.Add(fmt::format("decimal {}", dialect.decimal), right);
            shares.Add(fmt::format("rows {:3}", rows), right);
            if (!right && wrong.size() < 200) {
              wrong.push_back(fmt::format("{}: {}, not {}: {}", table.name, guessed, expected,
                                          text.substr(0, 150)));
            }
          }
        }
      }
    }
  }
  std::cout << shares.Text();
  for (size_t i = 0; i < wrong.size(); i += wrong.size() / 10 + 1) std::cout << wrong[i] << "\n";
  EXPECT_GE(shares.NumOf("all"), 4000);
  EXPECT_GE(shares.Of("all"), 0.95);
}

}  // namespace
}  // namespace shardfeed
