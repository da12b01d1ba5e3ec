"""Imported by a child process after the application: logs go where the worker's go, in the same form.

A child finds the application's own logging set up already, if there is any, as the worker did before it.
"""

from __future__ import annotations

import json
import os

from duly.cli.logs import CHILDREN, set_up

if told := os.environ.get(CHILDREN):
    set_up(**json.loads(told))
