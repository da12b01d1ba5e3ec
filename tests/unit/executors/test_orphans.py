"""Children do not outlive a parent that is killed without warning."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.executors.conftest import HERE, ended_within

import duly

PARENT = """
import sys
from duly.executors.children import Children, Errand

children = Children(1, search_path=[sys.argv[1]], main_file=None)

def report(pid):
    print(int(pid), flush=True)

children.submit(Errand(sys.argv[2], b""), report).result()
"""


@pytest.mark.parametrize("entry", ["bodies:sleep", "bodies:hog_interpreter"])
def test_a_child_dies_with_its_parent_whatever_it_is_doing(entry: str) -> None:
    root = str(Path(duly.__path__[0]).parent)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, HERE, entry],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": root},
    )
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())

        parent.send_signal(signal.SIGKILL)

        assert ended_within(child, 60)


def test_a_child_whose_control_channel_ends_goes_without_the_kernels_help(tmp_path: Path) -> None:
    """What other systems than Linux rely on: the parent is alive, but its end of the channel is not."""
    root = str(Path(duly.__path__[0]).parent)
    wire, its_wire = os.pipe()
    control, our_control = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); {BOOT}", str(wire), str(control)],
        pass_fds=(wire, control),
        start_new_session=True,
    ) as child:
        os.close(our_control)

        assert child.wait(60) == -signal.SIGKILL
    for descriptor in (wire, its_wire, control):
        os.close(descriptor)


BOOT = "from duly.executors.child import main; main()"
