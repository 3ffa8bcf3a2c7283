"""The authors' circuit files: values worked out by hand, exact round trips, every malformed line named."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lcml.backend import get_backend
from lcml.circuits.vtree import Vtree, balanced
from lcml.data.idx import read_idx
from lcml.errors import CircuitError, FormatError, OutputError, SettingsError
from lcml.formats import convert, load_model, read_circuit, read_vtree, save_model, write_circuit, write_vtree
from lcml.model.model import LogisticCircuit
from tests.model_strategies import assert_same_bits, assert_same_model, models

FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)

# A over vtree leaf 2, B over leaf 0, both under node 1: exactly one of A and B is true.
EITHER_VTREE = Vtree([-1, 2, -1], [-1, 0, -1], [1, -1, 0])  # type: ignore[arg-type]
EITHER = """\
c any comment
Logisitic Circuit
T 10 2 1 1.0
T 20 0 2 2.0
F 11 2 1 3.0
F 21 0 2 4.0
D 7 1 2 (10 21 1.5) (11 20 -2.0)
B 0.25
"""

# ((A <=> B) and C) or ((A xor B) and not C), over the balanced vtree of three variables: 0, 1 and 2 are the leaves.
THREE_VTREE = balanced(3)
THREE = [
    "Logistic Circuit",
    "T 0 0 1 0.1",
    "T 1 1 2 0.2",
    "T 2 3 3 0.3",
    "F 3 0 1 0.4",
    "F 4 1 2 0.5",
    "F 5 3 3 0.6",
    "D 6 2 2 (0 1 1.1) (3 4 1.2)",
    "D 7 2 2 (0 4 2.1) (3 1 2.2)",
    "D 8 4 2 (6 2 3.1) (7 5 3.2)",
    "B 0.5",
]
WHOLE = "\n".join(THREE) + "\n"


def read(tmp_path: Path, content: str | bytes, vtree: Vtree = THREE_VTREE) -> LogisticCircuit:
    path = tmp_path / "t.circuit"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_circuit(path, vtree)


@pytest.mark.parametrize(
    "header", ["Logisitic Circuit", "Logistic Circuit", "Regression Circuit", "Logistic  Circuit\r"]
)
def test_a_hand_written_file_gives_the_logit_worked_out_by_hand(tmp_path: Path, header: str) -> None:
    path = tmp_path / "t.circuit"
    path.write_text(EITHER.replace("Logisitic Circuit", header))
    model = read_circuit(path, EITHER_VTREE, scale=10)
    # A = 0.5, B = 0.2: the elements have probabilities 0.4 and 0.1, the root 0.5; flows 0.8 and 0.2, which are also
    # those of A, not B and not A, B: 0.25 + 1.5*0.8 - 2*0.2 + 1*0.8 + 2*0.2 + 3*0.2 + 4*0.8.
    assert model.logits([[5.0, 2.0]]) == pytest.approx(6.05, abs=1e-6)
    assert model.classes == (0, 1)
    assert model.link == "sigmoid"
    assert model.n_parameters == 7


def test_what_is_written_is_the_format(tmp_path: Path) -> None:
    write_circuit(read(tmp_path, EITHER, EITHER_VTREE), tmp_path / "t.circuit")
    lines = [line for line in (tmp_path / "t.circuit").read_text().splitlines() if not line.startswith("c ")]
    assert lines == [
        "Logistic Circuit",
        "T 0 2 1 1.0",
        "T 1 0 2 2.0",
        "F 2 2 1 3.0",
        "F 3 0 2 4.0",
        "D 4 1 2 (0 3 1.5) (2 1 -2.0)",
        "B 0.25",
    ]


def test_gates_in_any_order_of_height_are_read(tmp_path: Path) -> None:
    # Variables 1..4 pairwise; the gate of 3 and 4 stands below that of 1 and 2 and all three levels are interleaved.
    vtree = Vtree([-1, -1, -1, 0, 2, 3, -1, 5, -1], [-1, -1, -1, 1, 8, 4, -1, 6, -1], [0, 1, 2, -1, -1, -1, 4, -1, 3])  # type: ignore[arg-type]
    literals = [f"{kind} {10 * v + sign} {leaf} {v} {v}.{sign}" for sign, kind in enumerate("TF")
                for v, leaf in ((1, 0), (2, 1), (3, 2), (4, 8), (5, 6))]  # fmt: skip
    gates = ["D 1 3 1 (10 20 1)", "D 2 4 1 (30 40 2)", "D 3 5 1 (1 2 3)", "D 4 3 1 (11 20 4)", "D 5 5 1 (4 2 5)",
             "D 6 7 2 (3 50 6) (5 51 7)"]  # fmt: skip
    model = read(tmp_path, "\n".join(["Logistic Circuit", *literals, *gates, "B 0\n"]), vtree)
    assert model.circuit.or_vtree.tolist() == [3, 4, 3, 5, 5, 7]
    assert model.element_weights.tolist() == [[1, 2, 4, 3, 5, 6, 7]]
    assert model.circuit.elem_prime.tolist() == [0, 2, 5, 10, 12, 13, 14]
    assert model.circuit.elem_sub.tolist() == [1, 3, 1, 11, 11, 4, 9]
    assert model.literal_weights is not None
    assert model.literal_weights.tolist() == [[1.0, 2.0, 3.0, 4.0, 5.0, 1.1, 2.1, 3.1, 4.1, 5.1]]


@FUZZ
@given(models())
def test_a_round_trip_is_exact_to_the_bit(tmp_path: Path, model: LogisticCircuit) -> None:
    first, second = tmp_path / "a.circuit", tmp_path / "b.circuit"
    write_circuit(model, first)
    write_vtree(model.circuit.vtree, tmp_path / "a.vtree")
    again = read_circuit(first, read_vtree(tmp_path / "a.vtree"), classes=model.classes, link=model.link)
    assert again.circuit.same_as(model.circuit)
    for name in ("flat_weights", "bias"):
        assert_same_bits(getattr(again, name), getattr(model, name))
    write_circuit(again, second)
    assert first.read_bytes() == second.read_bytes()


def test_weight_sets_make_classes(tmp_path: Path) -> None:
    def with_sets(n_sets: int) -> Path:
        path = tmp_path / "t.circuit"
        path.write_text("\n".join(["Logistic Circuit", "T 0 0 1" + " 1" * n_sets, "F 1 0 1" + " 2" * n_sets,
                                   "B" + " 3" * n_sets, ""]))  # fmt: skip
        return path

    assert read_circuit(with_sets(1), balanced(1)).classes == (0, 1)
    two = read_circuit(with_sets(2), balanced(1))
    assert (two.classes, two.link) == ((0, 1), "softmax")
    three = read_circuit(with_sets(3), balanced(1))
    assert (three.classes, three.link) == ((0, 1, 2), "sigmoid")
    assert read_circuit(with_sets(3), balanced(1), classes=("a", "b", "c")).classes == ("a", "b", "c")
    for classes in ((7,), (7, 7)):
        with pytest.raises(CircuitError, match=r"expected two different classes or more, found \(7,"):
            read_circuit(with_sets(1), balanced(1), classes=classes)
    with pytest.raises(SettingsError, match=r"holds 3 weight set\(s\); 2 classes with link sigmoid take 1"):
        read_circuit(with_sets(3), balanced(1), classes=("a", "b"))
    with pytest.raises(SettingsError, match="above 0; found 0"):
        read_circuit(with_sets(3), balanced(1), scale=0)


def test_a_literal_that_no_element_uses_may_be_left_out(tmp_path: Path) -> None:
    lines = ["Logistic Circuit", "T 0 0 1 1", "T 1 1 2 2", "F 3 1 2 3", "D 4 2 2 (0 1 4) (0 3 5)", "B 6", ""]
    model = read(tmp_path, "\n".join(lines), balanced(2))
    assert model.weights.tolist() == [[1, 2, 0, 3, 4, 5]]


@pytest.mark.parametrize(
    ("number", "line", "message"),
    [
        (1, "", r":2: expected the line 'Logistic Circuit', found 'T 0 0 1 0.1'"),
        (1, "vtree 5", "expected the line 'Logistic Circuit', found 'vtree 5'"),
        (2, "", r":8: or gate 6, element 0: its prime 0 is not defined above this line"),
        (2, "T 0 1 1 0.1", "vtree node 1 is not the leaf of variable 1; is this the circuit's vtree?"),
        (2, "T 0 0 9 0.1", "vtree node 0 is not the leaf of variable 9"),
        (2, "T 0 9 1 0.1", "vtree node 9 is not the leaf of variable 1"),
        (2, "T 0 2 0 0.1", "vtree node 2 is not the leaf of variable 0"),
        (2, "T 0 0 1", "expected at least one weight"),
        (2, "T 0 0", "expected node id, vtree node, variable, found 2 value"),
        (2, f"T {'1' * 30} 0 1 0.1", "at most 18 digits, found '1{24}'..."),
        (2, "T -1 0 1 0.1", "found '-1'"),
        (2, "T 0 0 1 0.1 0.2", r":3: expected 2 weight\(s\), as above, found 1"),
        (3, "T 1 1 2 0.1 0.2", r"expected 1 weight\(s\), as above, found 2"),
        (3, "T 0 1 2 0.2", "node id 0 is defined twice"),
        (3, "T 1 0 1 0.2", "the literal T of variable 1 stands in the file twice"),
        (3, "T 1 1 2 1e999", "expected a finite number that fits 64 bits, found '1e999'"),
        (3, "T 1 1 2 nan", "expected a finite number that fits 64 bits, found 'nan'"),
        (3, "T 1 1 2 -inf", "expected a finite number that fits 64 bits, found '-inf'"),
        (3, "T 1 1 2 1_0", "expected a finite number that fits 64 bits, found '1_0'"),
        (3, "T 1 1 2 0x1p3", "expected a finite number that fits 64 bits, found '0x1p3'"),
        (3, "T 1 1 2 0,2", "expected a finite number that fits 64 bits, found '0,2'"),
        (3, "X 1 1 2 0.2", "expected a line 'T ...', 'F ...', 'D ...' or 'B ...', found 'X 1 1 2 0.2'"),
        (3, "\x00\x01\x02", "expected a line 'T ...'"),
        (8, "D 6 2 2 (0 1 1.1) (3 9 1.2)", "or gate 6, element 1: its sub 9 is not defined above this line"),
        (8, "D 6 2 2 (6 1 1.1) (3 4 1.2)", "or gate 6, element 0: its prime 6 is not defined above this line"),
        (8, "D 6 2 2 (7 1 1.1) (3 4 1.2)", "or gate 6, element 0: its prime 7 is not defined above this line"),
        (
            8,
            "D 6 2 2 (0 3 1.1) (3 4 1.2)",
            "or gate 6, element 0: its sub 3 belongs to vtree node 0, expected 1: .* not deco",
        ),
        (8, "D 6 4 2 (0 1 1.1) (3 4 1.2)", "or gate 6, element 0: its prime 0 belongs to vtree node 0, expected 2"),
        (8, "D 6 1 2 (0 1 1.1) (3 4 1.2)", "or gate 6: vtree node 1 is no inner node; is this the circuit's vtree?"),
        (8, "D 6 5 2 (0 1 1.1) (3 4 1.2)", "or gate 6: vtree node 5 is no inner node"),
        (8, "D 6 2 3 (0 1 1.1) (3 4 1.2)", "or gate 6: expected 3 and at least one element, found 2"),
        (8, "D 6 2 1 (0 1 1.1) (3 4 1.2)", "or gate 6: expected 1 and at least one element, found 2"),
        (8, "D 6 2 0", "or gate 6: expected 0 and at least one element, found 0"),
        (8, "D 6 2 2 (0 1 1.1) (3 4 1.2", r"or gate 6, element 1: expected '\(PRIME SUB WEIGHTS\)', found '3 4 1.2'"),
        (8, "D 6 2 2 (0 1 1.1) 5 (3 4 1.2)", r"or gate 6, element 0: expected '\(PRIME SUB WEIGHTS\)'"),
        (8, "D 6 2 2 (0 1) (3 4 1.2)", r"expected 1 weight\(s\), as above, found 0"),
        (8, "D 6 2 2 () (3 4 1.2)", "expected prime id, sub id, found 0 value"),
        (8, "D 0 2 2 (0 1 1.1) (3 4 1.2)", "node id 0 is defined twice"),
        (
            8,
            "D 6 2 2 (0 1 1.1) (0 1 1.2)",
            r"or gate 6 is not deterministic: its elements 0 \(variable 1, variable 2\)",
        ),
        (9, "D 6 2 2 (0 4 2.1) (3 1 2.2)", "node id 6 is defined twice"),
        (10, "D 8 4 2 (6 2 3.1) (6 5 3.2)", r":9: or gate 7: no element uses it"),
        (10, "D 8 4 2 (7 2 3.1) (7 5 3.2)", r":8: or gate 6: no element uses it"),
        (10, "D 8 2 1 (0 1 3.1)", r":10: circuit: the last or gate must stand at the vtree's root 4"),
        (10, "", r":9: circuit: the last or gate must stand at the vtree's root 4"),
        (11, "B", "expected 1 weight"),
        (11, "B 0.5 0.5", r"expected 1 weight\(s\), as above, found 2"),
        (11, "", r":11: expected a bias line"),
        (11, "B 0.5\nT 0 0 1 0.1", r":12: expected the bias to be the last line, found 'T 0 0 1 0.1' after it"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, number: int, line: str, message: str) -> None:
    content = "\n".join([*THREE[: number - 1], line, *THREE[number:]]) + "\n"
    place = "" if message.startswith(":") else f":{number}: "
    with pytest.raises(FormatError, match=rf"t\.circuit{place}.*{message}"):
        read(tmp_path, content)


def test_elements_that_overlap_deep_below_are_named(tmp_path: Path) -> None:
    lines = [*THREE[:8], "D 70 2 2 (0 1 2.1) (3 1 2.2)", "D 8 4 2 (6 2 3.1) (70 2 3.2)", "B 0.5", ""]
    message = r":10: or gate 8 is not deterministic: .* 0 \(or gate 6, variable 3\) and 1 \(or gate 70, variable 3\)"
    with pytest.raises(FormatError, match=message):
        read(tmp_path, "\n".join(lines))


def test_a_circuit_without_gates_has_one_variable(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=":3: circuit: expected at least one or gate over 3 variables, found none"):
        read(tmp_path, "Logistic Circuit\nT 0 0 1 1\nB 1\n")
    with pytest.raises(FormatError, match=":3: expected a line T and a line F of the one variable"):
        read(tmp_path, "Logistic Circuit\nT 0 0 1 1\nB 1\n", balanced(1))


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    read(tmp_path, WHOLE)
    for size in range(len(WHOLE)):
        with pytest.raises(FormatError, match=r"t\.circuit:"):
            read(tmp_path, WHOLE[:size])


@FUZZ
@given(st.binary(max_size=60), st.integers(0, len(WHOLE)), st.integers(0, 9))
@example("\N{ARABIC-INDIC DIGIT ONE}".encode(), WHOLE.index("0.1"), 1)
@example(b"\x00", 0, 0)
@example(b"(", WHOLE.index("D 6"), 0)
def test_garbage_raises_nothing_else(tmp_path: Path, garbage: bytes, place: int, removed: int) -> None:
    content = WHOLE.encode()
    try:
        read(tmp_path, content[:place] + garbage + content[place + removed :])
    except FormatError as error:
        line = error.line
    else:
        line = 1
    assert line is not None
    assert 1 <= line <= 80


@FUZZ
@given(st.permutations(THREE), st.integers(0, len(THREE)))
def test_lines_in_any_order_raise_nothing_else(tmp_path: Path, lines: list[str], kept: int) -> None:
    try:
        model = read(tmp_path, "\n".join([THREE[0], *lines[:kept], THREE[-1], ""]))
    except FormatError:
        return
    assert model.circuit.n_elements == 6


@pytest.mark.parametrize("start", [b"", b"c ", b"Logistic Circuit\nT 0 0 1 ", b"Logistic Circuit\nD 0 0 1 (1 2"])
def test_ten_gigabytes_of_one_line_are_refused_in_bounded_memory(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "huge.circuit"
    with path.open("wb") as file:
        file.write(start)
        file.truncate(10 << 30)  # a sparse file: zeros that take no room on the disk
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=rf"huge\.circuit:{1 + start.count(10)}: the line is longer than 8388608"):
            read_circuit(path, THREE_VTREE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 << 20


def test_what_cannot_be_read_or_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read: No such file"):
        read_circuit(tmp_path / "nothing", THREE_VTREE)
    model = read(tmp_path, WHOLE)
    with pytest.raises(OutputError, match="cannot write"):
        write_circuit(model, tmp_path / "t.circuit" / "x")


def test_conversion_there_and_back(tmp_path: Path) -> None:
    (tmp_path / "either.circuit").write_text(EITHER)
    write_vtree(EITHER_VTREE, tmp_path / "either.vtree")
    model = convert(
        tmp_path / "either.circuit",
        tmp_path / "m.lcml",
        vtree=tmp_path / "either.vtree",
        scale=10,
        classes=("no", "yes"),
    )
    loaded = load_model(tmp_path / "m.lcml")
    assert_same_model(loaded, model)
    assert loaded.predict([[5.0, 2.0]]).tolist() == ["yes"]
    assert loaded.provenance["converted_from"] == "either.circuit"
    convert(tmp_path / "m.lcml", tmp_path / "back.circuit")
    back = read_circuit(tmp_path / "back.circuit", read_vtree(tmp_path / "back.vtree"))
    assert back.circuit.same_as(model.circuit)
    assert back.weights.tolist() == model.weights.tolist()
    convert(tmp_path / "m.lcml", tmp_path / "x.circuit", vtree_out=tmp_path / "y.vtree")
    assert (tmp_path / "y.vtree").read_bytes() == (tmp_path / "back.vtree").read_bytes()


def test_conversion_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"give the file of its vtree \(--vtree\)"):
        convert("a.circuit", "a.lcml")
    with pytest.raises(SettingsError, match="a model has its own"):
        convert("a.lcml", "a.circuit", scale=255)
    for place in ("a.lcml", "a.circuit"):
        with pytest.raises(SettingsError, match=f"--vtree-out {place} is another file of this conversion"):
            convert("a.lcml", "a.circuit", vtree_out=place)
    with pytest.raises(SettingsError, match=r"cannot convert a\.lcml to b\.onnx"):
        convert("a.lcml", "b.onnx")


@pytest.mark.data
def test_the_authors_circuit_reads_right_and_round_trips(tmp_path: Path, data_dir: Path) -> None:
    authors = data_dir / "ucla"
    model = read_circuit(authors / "mnist.circuit", read_vtree(authors / "balanced.vtree"), scale=255)
    assert (model.circuit.n_or_gates, model.circuit.n_elements, model.n_parameters) == (8352, 14818, 163870)
    images = read_idx(data_dir / "mnist" / "t10k-images-idx3-ubyte.gz").reshape(10000, 784)
    labels = read_idx(data_dir / "mnist" / "t10k-labels-idx1-ubyte.gz")
    assert np.count_nonzero(model.predict(images, get_backend()) == labels) == 9937

    write_circuit(model, tmp_path / "a.circuit")
    write_vtree(model.circuit.vtree, tmp_path / "a.vtree")
    again = read_circuit(tmp_path / "a.circuit", read_vtree(tmp_path / "a.vtree"), scale=255)
    assert_same_model(again, model)
    save_model(model, tmp_path / "a.lcml")
    assert_same_model(load_model(tmp_path / "a.lcml"), model)
