"""`python -m tests.simulation`: see many.py, which the processes that it starts can import."""

import sys

from tests.simulation.many import main

if __name__ == "__main__":
    sys.exit(main())
