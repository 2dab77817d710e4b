"""`python -m chunkside`."""

import sys

from chunkside.cli import main

if __name__ == "__main__":
    sys.exit(main())
