"""A module that ends the process which imports it, unless that is pytest."""

import os
import sys

if "pytest" not in sys.modules:
    os._exit(7)
