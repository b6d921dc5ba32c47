"""The exit statuses of all commands (cli/terminal/console.h, docs/command_line.md)."""

DONE, DEFECTS, USAGE, FAILED, INTERRUPTED = 0, 1, 2, 3, 130
