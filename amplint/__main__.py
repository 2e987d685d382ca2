"""`python -m amplint`, for where no script directory is on the path."""

import sys

from amplint.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
