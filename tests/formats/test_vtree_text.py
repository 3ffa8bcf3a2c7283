"""The SDD package's vtree files: hand-written ones, exact round trips, and every malformed line named."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lcml.circuits.vtree import balanced, random, right_linear
from lcml.errors import FormatError, OutputError
from lcml.formats import read_vtree, write_vtree
from tests.model_strategies import assert_same_vtree

FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

# Variables 1, 2 under node 4; variable 3 beside them; ids in no order.
LINES = ["vtree 5", "L 3 1", "L 0 2", "I 4 3 0", "L 1 3", "I 2 4 1"]
WHOLE = "\n".join(LINES) + "\n"


def read(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "t.vtree"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    read_vtree(path)


def test_a_hand_written_file_keeps_its_ids(tmp_path: Path) -> None:
    path = tmp_path / "t.vtree"
    path.write_text("c any comment\n\n" + "\r\n".join(LINES))
    vtree = read_vtree(path)
    assert vtree.left.tolist() == [-1, -1, 4, -1, 3]
    assert vtree.right.tolist() == [-1, -1, 1, -1, 0]
    assert vtree.variable.tolist() == [1, 2, -1, 0, -1]
    assert vtree.root == 2


def test_what_is_written_is_the_format(tmp_path: Path) -> None:
    path = tmp_path / "t.vtree"
    write_vtree(right_linear(2), path)
    lines = [line for line in path.read_text().splitlines() if not line.startswith("c ")]
    assert lines == ["vtree 3", "L 0 1", "L 1 2", "I 2 0 1"]


@FUZZ
@given(st.integers(1, 40), st.integers(0, 999))
def test_a_round_trip_keeps_every_node(tmp_path: Path, n_variables: int, seed: int) -> None:
    vtree = random(n_variables, seed)
    write_vtree(vtree, tmp_path / "t.vtree")
    assert_same_vtree(read_vtree(tmp_path / "t.vtree"), vtree)


@pytest.mark.parametrize(
    ("number", "line", "message"),
    [
        (1, "", r":2: expected a line 'vtree NODES', found 'L 3 1'"),
        (1, "sdd 5", "expected a line 'vtree NODES', found 'sdd 5'"),
        (1, "vtree", "expected number of nodes, found 0"),
        (1, "vtree 4", "expected an odd number of nodes"),
        (1, "vtree -5", "found '-5'"),
        (1, f"vtree {'9' * 30}", "at most 18 digits, found '9{24}'..."),
        (1, "vtree 3", r":2: expected each node id from 0 to 2 once, found 3"),
        (1, "vtree 999999999999999999", r":6: expected 999999999999999999 nodes, found 5: the file is truncated"),
        (2, "L 3 0", "expected each variable from 1 to 3 once, found 0"),
        (2, "L 3 4", "expected each variable from 1 to 3 once, found 4"),
        (3, "L 0 1", "expected each variable from 1 to 3 once, found 1"),
        (3, "L 3 2", "expected each node id from 0 to 4 once, found 3"),
        (3, "L 5 2", "expected each node id from 0 to 4 once, found 5"),
        (3, "L 0", "expected node id, variable, found 1 value"),
        (3, "L 0 2.5", "found '2.5'"),
        (3, "L 0 +2", "found '\\+2'"),
        (3, "L 0 1_0", "found '1_0'"),
        (3, "X 0 2", "expected a line 'L ...' or 'I ...', found 'X 0 2'"),
        (4, "I 4 3 3", "child 3 of node 4 has a parent already"),
        (4, "I 4 3 1", "child 1 of node 4 is not defined above this line"),
        (4, "I 4 3 4", "child 4 of node 4 is not defined above this line"),
        (4, "I 4 3 0 1", "expected node id, left child, right child, found 4 value"),
        (6, "I 2 4 3", "child 3 of node 2 has a parent already"),
        (6, "", r":6: expected 5 nodes, found 4"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, number: int, line: str, message: str) -> None:
    lines = [*LINES[: number - 1], line, *LINES[number:]]
    place = "" if message.startswith(":") else f":{number}: "
    with pytest.raises(FormatError, match=rf"t\.vtree{place}.*{message}"):
        read(tmp_path, "\n".join(lines) + "\n")


def test_nodes_without_a_root_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r":4: expected each variable from 1 to 2 once, found 3"):
        read(tmp_path, "vtree 3\nL 0 1\nL 1 2\nL 2 3\n")


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    for size in range(len(WHOLE) - 1):
        with pytest.raises(FormatError, match=r"t\.vtree:"):
            read(tmp_path, WHOLE[:size])


@FUZZ
@given(st.binary(max_size=60), st.integers(0, len(WHOLE)), st.integers(0, 6))
@example(b"vtree 1\nL 0 \xd9\xa1\n", 0, 0)
@example(b"\x00", 0, 0)
def test_garbage_raises_nothing_else(tmp_path: Path, garbage: bytes, place: int, removed: int) -> None:
    content = WHOLE.encode()
    try:
        read(tmp_path, content[:place] + garbage + content[place + removed :])
    except FormatError as error:
        line = error.line
    else:
        line = 1
    assert line is not None
    assert 1 <= line <= 70


def test_ten_gigabytes_of_one_line_are_refused_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge.vtree"
    with path.open("wb") as file:
        file.write(b"vtree 5\nL 0 1")
        file.truncate(10 << 30)  # a sparse file: zeros that take no room on the disk
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"huge\.vtree:2: the line is longer than 8388608 bytes"):
            read_vtree(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 << 20


def test_what_cannot_be_read_or_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read: No such file"):
        read_vtree(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(FormatError, match=r"file:1: expected a line 'vtree NODES', found nothing"):
        read_vtree(tmp_path / "file")
    with pytest.raises(OutputError, match="cannot write"):
        write_vtree(balanced(2), tmp_path / "file" / "t.vtree")
