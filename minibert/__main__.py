"""``python -m minibert``: the command line where the console script is not on the path."""

import sys

from minibert.cli import main

if __name__ == "__main__":
    sys.exit(main())
