// The command line program.

#include "cli/program.h"

int main(int argc, char** argv) { return shardfeed::RunProgram(argc, argv); }
