"""What holds for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Tests run in parallel on busy machines: how long one example takes says nothing about the code.
settings.register_profile("duly", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("duly")
