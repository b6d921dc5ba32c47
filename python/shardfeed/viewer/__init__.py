"""Shows datasets in a browser: `shardfeed view` serves a page on this machine, and `shardfeed report` writes one file."""
