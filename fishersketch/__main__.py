"""``python -m fishersketch library ...``: a folder of signatures, without model or data."""

import sys

from fishersketch.command_line import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
