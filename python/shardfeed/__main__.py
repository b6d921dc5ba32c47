"""python -m shardfeed: the command line."""

from .command import main

main()
