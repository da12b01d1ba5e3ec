"""What nobody may see of a job: one rule for the command line, the dashboard and the admin.

`names` says which names are secrets anywhere, `calls` what that hides of one function's calls, and `quotes`
finds it again wherever a job's texts repeat it.
"""

from __future__ import annotations

from duly.secrecy.calls import Discretion
from duly.secrecy.names import HIDDEN, Secrecy

__all__ = ["HIDDEN", "Discretion", "Secrecy"]
