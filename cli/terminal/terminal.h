// Text on a terminal: how wide it is, and one line of status below all messages.

#ifndef SHARDFEED_CLI_TERMINAL_TERMINAL_H_
#define SHARDFEED_CLI_TERMINAL_TERMINAL_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace shardfeed {

// Returns the number of columns that UTF-8 text takes: two for East Asian characters and emoji,
// none for combining marks. Bytes that are not UTF-8 take one each.
size_t ColumnsOf(std::string_view text);

// Returns text of at most `columns` columns: `text` itself, or its beginning and "...".
std::string CutEnd(std::string_view text, size_t columns);
// The same with the end of `text`, which says more about a path than its beginning.
std::string CutBeginning(std::string_view text, size_t columns);

// Whether standard error is a terminal on which a line can be written again.
bool StderrIsTerminal();
// Returns the width of the terminal that standard error is; 80 if it is not known.
size_t TerminalColumns();

// Prints a line to standard error. The status line, if there is one, stays below it. Thread-safe,
// as are the two functions below.
void PrintMessage(std::string_view line);

// Shows `line`, which must be shorter than the terminal is wide, in place of the earlier status
// line. Standard error must be a terminal.
void ShowStatusLine(std::string line);
// Removes the status line, so that what is printed next begins the line.
void RemoveStatusLine();

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_TERMINAL_TERMINAL_H_
