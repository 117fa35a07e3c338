"""`python -m slaternet_lab`: the `slaternet` command."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the working directory, where `python -m` looks first: files there are nobody's modules

from slaternet_lab.cli import main

if __name__ == "__main__":
    main()
