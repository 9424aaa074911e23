"""The command ``rocm-ops``, also ``python -m rocm_ops``: check, time and explain ops, and run models."""

import os
import signal
import sys

from . import _native


def main() -> int:
    if not hasattr(_native, "command"):
        print("rocm-ops: this build of the package has no command; install a wheel, or build it with its default features", file=sys.stderr)
        return 2
    # Python's handler would keep Ctrl-C from the command, which has one of its own.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    start = [sys.executable, "-m", "rocm_ops"]
    return _native.command(["rocm-ops", *sys.argv[1:]], start, os.path.dirname(os.path.abspath(__file__)))


if __name__ == "__main__":
    sys.exit(main())
