"""The project is set up before the test modules are imported: they import its models and tasks."""

from __future__ import annotations

from tests.django.site import set_up

set_up()
