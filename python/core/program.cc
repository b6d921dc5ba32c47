// The command line of the package. Its program, python/launcher.cc, calls this function of the
// extension in a process without an interpreter, so nothing here may use Python.

#include "cli/program.h"

extern "C" __attribute__((visibility("default"))) int shardfeed_program(int argc, char** argv) {
  return shardfeed::RunProgram(argc, argv);
}
