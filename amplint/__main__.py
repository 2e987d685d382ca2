"""`python -m amplint`, for where no script directory is on the path."""

import sys

from amplint.cli.main import entry

if __name__ == "__main__":
    sys.exit(entry())
