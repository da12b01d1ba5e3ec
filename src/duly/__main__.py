"""`python -m duly`: the same as the `duly` command, where scripts are not on the path."""

import sys

from duly.cli import main

if __name__ == "__main__":
    sys.exit(main())
