"""What writers leave behind that were killed, and who clears it away."""

import os
import subprocess
import sys
import time
from pathlib import Path

from lcml.files import atomic_writer, remove_unfinished

KILLED = """
import os, sys
from lcml.files import atomic_writer
with atomic_writer(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os._exit(1)
"""
LONG_AGO = time.time() - 3600


def test_what_a_killed_writer_left_goes_and_what_is_being_written_stays(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "dead.lcml")], check=False)
    (dead,) = tmp_path.iterdir()
    (tmp_path / ".mine.lcml-tmp.txt").touch()
    remove_unfinished(tmp_path)
    assert dead.exists()  # perhaps only just begun, and not locked yet
    with atomic_writer(tmp_path / "alive.lcml") as file:
        file.write(b"whole")
        for path in tmp_path.iterdir():
            os.utime(path, (LONG_AGO, LONG_AGO))
        remove_unfinished(tmp_path)
        assert not dead.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"alive.lcml", ".mine.lcml-tmp.txt"}
    assert (tmp_path / "alive.lcml").read_bytes() == b"whole"
