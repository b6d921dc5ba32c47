// The version of shardfeed. docs/stability.md says what a version promises.

#ifndef SHARDFEED_VERSION_H_
#define SHARDFEED_VERSION_H_

#define SHARDFEED_VERSION_MAJOR 0
#define SHARDFEED_VERSION_MINOR 1
#define SHARDFEED_VERSION_PATCH 0

// The only place that states the version: the command, the Python package, its wheel and
// scripts/install read it from here, and a test compares CHANGELOG.md.
#define SHARDFEED_VERSION "0.1.0"

#endif  // SHARDFEED_VERSION_H_
