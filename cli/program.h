// The command line program as a function: that of cli/main.cc, and of the Python package, whose
// extension holds it beside the library, so that the package has the library once.

#ifndef SHARDFEED_CLI_PROGRAM_H_
#define SHARDFEED_CLI_PROGRAM_H_

namespace shardfeed {

// Runs the command line of a process and returns the process's exit status.
int RunProgram(int argc, char** argv);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_PROGRAM_H_
