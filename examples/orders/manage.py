"""`python manage.py migrate`, `runserver`, `duly_worker`: as in any Django project."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orders_site.settings")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
