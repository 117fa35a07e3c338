"""`python -m slaternet_lab`: the `slaternet` command."""

from slaternet_lab.cli import main

if __name__ == "__main__":
    main()
