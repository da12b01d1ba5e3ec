"""`python -m tests.django.project.manage COMMAND`: what a project's manage.py does."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.django.project.settings")
    management: Any = importlib.import_module("django.core.management")
    management.execute_from_command_line(sys.argv)
