"""Makes a peer's own form of the data: PYTHON -m peers.prepare MODULE --data FOLDER [--check]. Not timed."""

import argparse
import importlib
import os
import sys

from peers import protocol


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module")
    parser.add_argument("--data", required=True)
    parser.add_argument("--binaries")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(namespace=argparse.Namespace(threads=2, seconds=0, rate=0, cold=False,
                                                                used=False))
    importlib.import_module(f"peers.{options.module}").prepare(protocol.Run(options))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
