// --cache and --cache-size, the flags of commands that read datasets.

#ifndef SHARDFEED_CLI_FLAGS_CACHE_FLAGS_H_
#define SHARDFEED_CLI_FLAGS_CACHE_FLAGS_H_

#include "CLI/CLI.hpp"
#include "cli/terminal/console.h"

namespace shardfeed {

// Adds --cache and --cache-size, the options of commands that read datasets. Everything that the
// process reads from stores then goes through the cache.
void AddCacheOptions(CLI::App& command, CommandOptions& options);
// Prints how much was read from the cache; nothing without one.
void PrintCacheUse(const CommandOptions& options);
// Prints a note to standard error if the cache could not store something.
void NoteCache(const CommandOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_FLAGS_CACHE_FLAGS_H_
