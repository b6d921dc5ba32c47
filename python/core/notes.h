// Warnings in Python about the indexes of tar archives that are built.

#ifndef SHARDFEED_PYTHON_CORE_NOTES_H_
#define SHARDFEED_PYTHON_CORE_NOTES_H_

#include <string>
#include <vector>

namespace shardfeed::python {

// Keeps the notes on the shards of one dataset until TellNotes is called. Thread-safe, and needs no
// GIL: the threads that build indexes call it.
void KeepNotes(const std::vector<std::string>& notes);

// Warns of what was kept since the last call, once for each dataset. Call with the GIL. Throws
// python_error if filters make the warning an exception.
void TellNotes();

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_NOTES_H_
