"""The commands `shardfeed view` and `shardfeed report`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple

from .. import _core, interrupts
from .._core import DataLossError
from ..command_line import MOST_THREADS, Misuse, Parser, complain, max_record_bytes, names_in, one_line, tell, whole
from ..exit_status import DEFECTS, DONE, FAILED, INTERRUPTED, USAGE

if TYPE_CHECKING:
    from .dataset import ViewedDataset

COMMANDS = ("view", "report")


def command_in(arguments: Sequence[str]) -> Optional[Tuple[str, List[str], List[str]]]:
    """Returns the command and the arguments before and after it, if a command line names one of these commands."""
    for command in COMMANDS:
        place = next((i for i in names_in(arguments, len(arguments)) if arguments[i] == command), None)
        if place is None:
            continue
        before = list(arguments[:place])
        # What is before the command is an option, or the value of one, be it misplaced.
        if all(i and before[i - 1] in _own_options(command) for i in names_in(before, len(before))):
            return command, before, list(arguments[place + 1:])
    return None


def _own_options(command: str) -> List[str]:
    """The options that must follow the command."""
    common = Parser(add_help=False)
    _add_common(common)
    return [option for option in parser(command)._option_string_actions
            if option not in common._option_string_actions and option not in ("-h", "--help")]


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 5 or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port: expected 0 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of at most 999999")
    return int(text)


def parser(command: str) -> argparse.ArgumentParser:
    if command == "view":
        made = Parser(
            prog="shardfeed view", description="Show datasets in a browser: schema, statistics, records, order, defects",
            usage="shardfeed view [OPTIONS] DATASET...", allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog="The page is served to this machine alone (127.0.0.1), under a URL with a random token. With\n"
                   "several datasets it also compares them. Ctrl+C or SIGTERM ends it, with status 0.\n\n"
                   "From another machine: ssh -L 8080:127.0.0.1:8080 HOST, there --port 8080.\n\n"
                   "Examples:\n  shardfeed view out/train@64\n  shardfeed view out/train@64 out/val@4 --port 8080\n"
                   "  shardfeed view out/train@64 --chain recipe.py:train\n")
        made.add_argument("datasets", nargs="*", metavar="DATASET", help="stem@N, stem@*, a folder, a glob, or a URL of these")
        made.add_argument("--port", type=_port, default=0, metavar="PORT", help="default: any free port")
        made.add_argument("--chain", metavar="FILE.py:NAME",
                          help="also show the batches of this chain, or of the one that this function returns, as\n"
                               "training gets them; runs the file")
        made.add_argument("--open", action="store_true", help="open the page in the default browser")
    else:
        made = Parser(
            prog="shardfeed report", description="Write schema, statistics and some records as one HTML file",
            usage="shardfeed report [OPTIONS] DATASET FILE", allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog="The file needs nothing else, so it can be mailed. All records are read for the statistics.\n\n"
                   "Example:\n  shardfeed report out/train@64 train.html\n")
        made.add_argument("datasets", nargs="*", metavar="DATASET FILE", help="a dataset, and the file to write")
        made.add_argument("--records", type=_count, default=48, metavar="N",
                          help="number of records to show, spread evenly; default 48")
        made.add_argument("--overwrite", action="store_true", help="replace a file of that name")
    _add_common(made)
    return made


def _add_common(made: argparse.ArgumentParser) -> None:
    made.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    made.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    made.add_argument("-j", "--jobs", "--threads", dest="threads", type=whole(1, MOST_THREADS), metavar="INT",
                      help="threads that read all records; default: one per processor")
    made.add_argument("--max-record-bytes", type=max_record_bytes, metavar="SIZE",
                      help="a longer record of a compressed shard is an error; default 2GiB")


def _open(given: argparse.Namespace, spec: str) -> "ViewedDataset":
    from .dataset import ViewedDataset
    return ViewedDataset(spec, _flags(given))


def _open_or_show_why(given: argparse.Namespace, spec: str) -> "ViewedDataset":
    """Opens a dataset, or what takes its place if it is damaged."""
    from .dataset import UnopenedDataset
    try:
        return _open(given, spec)
    except DataLossError as error:
        complain(str(error))
        return UnopenedDataset(spec, _flags(given), str(error))


def _flags(given: argparse.Namespace) -> List[str]:
    """The options for runs of the program."""
    flags = ["--jobs", str(given.threads)] if given.threads else []
    if given.max_record_bytes is not None:
        _core.set_max_record_bytes(given.max_record_bytes)
        flags += ["--max-record-bytes", str(given.max_record_bytes)]
    return flags


def _view(given: argparse.Namespace) -> int:
    from .server import Server
    if not given.datasets:
        raise Misuse("DATASET is required")
    from .training import ViewedChain, load_chain
    datasets = [_open_or_show_why(given, spec) for spec in given.datasets]
    chain = None if given.chain is None else ViewedChain(given.chain, load_chain(given.chain))
    try:
        server = Server(datasets, given.port, chain)
    except OSError as error:
        raise OSError(f"cannot serve on port {given.port}: {error.strerror}; choose another --port") from None
    try:
        if given.json:
            tell(json.dumps({"url": server.url}))
        else:
            tell(f"{server.url}" + ("" if given.quiet else "   (Ctrl+C ends it)"))
        if given.open:
            import webbrowser
            webbrowser.open(server.url)
        server.serve_forever()
    except KeyboardInterrupt:
        pass  # this is how it ends
    finally:
        server.server_close()
        if server.is_stuck:
            sys.stdout.flush()
            os._exit(DONE)  # a step of the chain that does not return would keep the process
    return DONE


def _report(given: argparse.Namespace) -> int:
    from .dataset import Missing
    from .report import write_report
    if len(given.datasets) != 2:
        raise Misuse("expected a dataset and the file to write: shardfeed report out/train@64 train.html")
    spec, path = given.datasets
    if path in ("", "-"):
        raise Misuse("expected the name of the file to write")
    if os.path.lexists(path) and not os.path.isfile(path):
        raise Misuse(f"{path} is no regular file, so no report takes its place; name another file")
    if os.path.exists(path) and not given.overwrite:
        raise Misuse(f"{path} exists; pass --overwrite to replace it")
    dataset = _open(given, spec)
    try:
        size = write_report(dataset, path, given.records)
    except Missing as error:
        raise OSError(str(error)) from None
    finally:
        dataset.close()
    if given.json:
        tell(json.dumps({"dataset": spec, "file": path, "bytes": size}))
    elif not given.quiet:
        tell(f"{one_line(path)}: {size:,} bytes")
    return DONE


def main(command: str, before: Sequence[str], after: Sequence[str]) -> int:
    """Runs the command, and returns its exit status. `before` are the options that precede it."""
    def fail(status: int, message: str) -> int:
        complain(message)
        return status

    try:
        with interrupts.as_exceptions():
            own = _own_options(command) if before else []
            misplaced = next((name for one in before if (name := one.partition("=")[0]) in own), None)
            if misplaced is not None:
                raise Misuse(f"there is no option {misplaced} before '{command}'; place it after '{command}'")
            given = argparse.Namespace()
            for some in (before, after):  # what follows the command overrides
                for name in ("datasets", "_seen"):
                    vars(given).pop(name, None)
                given = parser(command).parse_args(list(some), given)
            return _view(given) if command == "view" else _report(given)
    except Misuse as error:
        fail(USAGE, f"{command}: {error}")
        complain(f"Run 'shardfeed {command} --help' for usage.", head="")
        return USAGE
    except KeyboardInterrupt:
        return fail(INTERRUPTED, "interrupted")
    except DataLossError as error:
        return fail(DEFECTS, str(error))
    except MemoryError:
        return fail(FAILED, "out of memory")
    except (ValueError, TypeError) as error:
        return fail(USAGE, str(error))
    except (OSError, RuntimeError) as error:
        return fail(FAILED, str(error))
