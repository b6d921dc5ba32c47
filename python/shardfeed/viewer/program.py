"""The commands `shardfeed view` and `shardfeed report`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, List, NoReturn, Optional, Sequence

from .. import _core
from .._core import DataLossError
from ..command_line import Misuse, Parser, names_in, one_line
from ..exit_status import DEFECTS, DONE, FAILED, INTERRUPTED, USAGE
from ..sources import size_of

if TYPE_CHECKING:
    from .dataset import ViewedDataset

COMMANDS = ("view", "report")


def command_in(arguments: Sequence[str]) -> Optional[List[str]]:
    """Returns the command and its arguments, if a command line names one of these commands."""
    for place in names_in(arguments, 1):
        if arguments[place] in COMMANDS:
            return [arguments[place], *arguments[:place], *arguments[place + 1:]]
    return None


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
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
            epilog="The page is served to this machine alone (127.0.0.1), under a URL with a random token, and only\n"
                   "reads. With several datasets it also compares them. Ctrl+C ends it.\n\n"
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
    made.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    made.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    made.add_argument("-j", "--jobs", "--threads", dest="threads", type=_count, metavar="N",
                      help="threads that read all records; default: one per processor")
    made.add_argument("--max-record-bytes", metavar="SIZE",
                      help="a longer record of a compressed shard is an error; default 2GiB")
    return made


def _open(given: argparse.Namespace, spec: str) -> "ViewedDataset":
    from .dataset import ViewedDataset
    flags = ["--jobs", str(given.threads)] if given.threads else []
    if given.max_record_bytes is not None:
        size = size_of("--max-record-bytes", given.max_record_bytes)
        _core.set_max_record_bytes(size)
        flags += ["--max-record-bytes", str(size)]
    return ViewedDataset(spec, flags)


def _view(given: argparse.Namespace) -> int:
    from .server import Server
    if not given.datasets:
        raise Misuse("DATASET is required")
    from .training import ViewedChain, load_chain
    datasets = [_open(given, spec) for spec in given.datasets]
    chain = None if given.chain is None else ViewedChain(given.chain, load_chain(given.chain))
    try:
        server = Server(datasets, given.port, chain)
    except OSError as error:
        raise OSError(f"cannot serve on port {given.port}: {error.strerror}; choose another --port") from None
    try:
        if given.json:
            print(json.dumps({"url": server.url}), flush=True)
        else:
            print(f"{server.url}" + ("" if given.quiet else "   (Ctrl+C ends it)"), flush=True)
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
    from .report import write_report
    if len(given.datasets) != 2:
        raise Misuse("expected a dataset and the file to write: shardfeed report out/train@64 train.html")
    spec, path = given.datasets
    if path in ("", "-"):
        raise Misuse("expected the name of the file to write")
    if os.path.exists(path) and not given.overwrite:
        raise Misuse(f"{path} exists; pass --overwrite to replace it")
    dataset = _open(given, spec)
    try:
        size = write_report(dataset, path, given.records)
    finally:
        dataset.close()
    if given.json:
        print(json.dumps({"dataset": spec, "file": path, "bytes": size}))
    elif not given.quiet:
        print(f"{one_line(path)}: {size:,} bytes")
    return DONE


def main(command: str, *arguments: str) -> int:
    """Runs the command, and returns its exit status."""
    def interrupt(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    def fail(status: int, message: str) -> int:
        sys.stderr.write(f"shardfeed: {one_line(message)}\n")
        return status

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        given = parser(command).parse_args(list(arguments))
        return _view(given) if command == "view" else _report(given)
    except Misuse as error:
        fail(USAGE, f"{command}: {error}")
        sys.stderr.write(f"Run 'shardfeed {command} --help' for usage.\n")
        return USAGE
    except KeyboardInterrupt:
        return fail(INTERRUPTED, "interrupted")
    except DataLossError as error:
        return fail(DEFECTS, str(error))
    except (ValueError, TypeError) as error:
        return fail(USAGE, str(error))
    except (OSError, RuntimeError) as error:
        return fail(FAILED, str(error))
    finally:
        signal.signal(signal.SIGTERM, previous)
