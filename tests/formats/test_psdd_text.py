"""`.psdd` files: values worked out by hand, exact round trips, every malformed line named."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcml import load_model
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.vtree import balanced
from lcml.errors import CircuitError, FormatError, SettingsError
from lcml.formats import convert, read_psdd, save_model, write_psdd, write_vtree
from lcml.model.distribution import ProbabilisticCircuit
from tests.cli.commands import output
from tests.model.test_distribution import drawn
from tests.model_strategies import circuits
from tests.worlds import all_worlds

FUZZ = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
PAIR = [
    "c as the UCLA tools write it: if the first is true (0.3) then the second with 0.25, else always",
    "psdd 5",
    "L 0 0 1",
    "L 1 0 -1",
    "T 2 1 2 -1.3862943611198906",
    "L 3 1 2",
    "D 4 2 2 0 2 -1.2039728043259361 1 3 -0.35667494393873245",
]
THREE = [*PAIR[:1], "psdd 7", *PAIR[2:], "T 5 3 3 -0.6931471805599453", "D 6 4 1 4 5 0.0"]


def read(tmp_path: Path, content: str | bytes, n_variables: int = 3) -> ProbabilisticCircuit:
    path = tmp_path / "t.psdd"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_psdd(path, balanced(n_variables))


def test_terminals_and_literals_by_hand(tmp_path: Path) -> None:
    """Worlds 00, 01, 10, 11; then with a third variable that is true half of the time."""
    vtree_of_two = ["psdd 5", *PAIR[2:]]
    pair = read(tmp_path, "\n".join(vtree_of_two) + "\n", 2)
    expected = np.array([0.0, 0.7, 0.3 * 0.75, 0.3 * 0.25])
    assert np.exp(pair.log_likelihood(all_worlds(2))) == pytest.approx(expected)
    three = read(tmp_path, "\n".join(THREE) + "\n")
    assert np.exp(three.log_likelihood(all_worlds(3))) == pytest.approx(np.repeat(expected, 2) / 2)


def test_one_variable_and_a_probability_of_zero(tmp_path: Path) -> None:
    quarter = read(tmp_path, "psdd 1\nT 0 0 1 -1.3862943611198906\n", 1)
    assert np.exp(quarter.log_parameters) == pytest.approx([0.25, 0.75])
    assert read(tmp_path, "psdd 1\nL 7 0 -1\n", 1).log_parameters.tolist() == [-np.inf, 0]
    text = "\n".join(THREE).replace("-0.6931471805599453", "-Infinity") + "\n"
    assert read(tmp_path, text).marginals(np.full((1, 3), np.nan))[0, 2] == 0


def test_a_free_variable_with_both_probabilities(tmp_path: Path) -> None:
    """As the C++ package writes it: six digits, the negated literal's first."""
    both = "\n".join(THREE).replace("-1.3862943611198906", "-0.287682 -1.386294") + "\n"
    once = read(tmp_path, "\n".join(THREE) + "\n").log_likelihood(all_worlds(3))
    assert np.exp(read(tmp_path, both).log_likelihood(all_worlds(3))) == pytest.approx(np.exp(once), abs=1e-6)
    assert np.exp(read(tmp_path, "psdd 1\nT 0 0 1 -0.356675 -1.203973\n", 1).log_parameters) == pytest.approx(
        [0.3, 0.7], abs=1e-6
    )
    with pytest.raises(FormatError, match=r"t.psdd:2: both probabilities sum to 0.6"):
        read(tmp_path, "psdd 1\nT 0 0 1 -1.203973 -1.203973\n", 1)


def test_few_digits_are_rescaled(tmp_path: Path) -> None:
    found = read(tmp_path, "\n".join(THREE).replace("-1.2039728043259361", "-1.204") + "\n")
    assert np.exp(found.log_likelihood(all_worlds(3))).sum() == pytest.approx(1, abs=1e-12)


@FUZZ
@given(circuits(), st.integers(0, 2**16))
def test_round_trips_are_exact(tmp_path: Path, circuit: Circuit, seed: int) -> None:
    distribution = drawn(circuit, seed)
    write_psdd(distribution, tmp_path / "a.psdd")
    found = read_psdd(tmp_path / "a.psdd", distribution.circuit.vtree)
    assert found.circuit.same_as(distribution.circuit)
    lines = [line for line in (tmp_path / "a.psdd").read_text().splitlines() if not line.startswith("c")]
    assert [line.split()[1] for line in lines] == [str(len(lines) - 1), *map(str, range(len(lines) - 1))]
    if distribution.circuit.n_or_gates:
        assert np.array_equal(found.log_parameters, distribution.log_parameters)
    else:  # the format keeps one of the two numbers
        assert found.log_parameters == pytest.approx(distribution.log_parameters)


@pytest.mark.parametrize(
    ("line", "changed", "message"),
    [
        (2, "sdd 7", r"t.psdd:2: expected a line 'psdd NODES', found 'sdd'"),
        (2, "psdd 8", "t.psdd:9: expected 8 nodes, found 7"),
        (2, "psdd 6", "t.psdd:9: expected 6 nodes, found more"),
        (3, "L 0 0 2", "t.psdd:3: vtree node 0 is not the leaf of variable 2"),
        (3, "L 0 0 --1", "t.psdd:3: expected node id, vtree node, literal as integers"),
        (3, "L 0 0", "t.psdd:3: expected node id, vtree node, literal, found 2"),
        (4, "L 0 0 -1", "t.psdd:4: node id 0 is defined twice"),
        (5, "T 2 1 2 0.5", "t.psdd:5: expected the log of a probability, 0 or below, found 0.5"),
        (5, "T 2 1 2", "t.psdd:5: expected one log probability, found 0"),
        (5, "T 2 1 2 nan", "t.psdd:5: expected a finite number"),
        (6, "F 3 1 2", "t.psdd:6: expected a line 'L ...', 'T ...' or 'D ...'"),
        (7, "D 4 2 2 0 2 -1.2 1 3", "t.psdd:7: expected one log probability, found 0"),
        (7, "D 4 2 3 0 2 -1.2 1 3 -0.36", "t.psdd:7: or gate 4: expected 3 and at least one element, found 2"),
        (7, "D 4 2 2 0 2 -1.2 1 3 -0.9", "t.psdd:7: or gate 4: its probabilities sum to 0.70"),
        (7, "D 4 2 2 0 2 -1.2 0 3 -0.3584", "t.psdd:7: or gate 4 is not deterministic"),
        (7, "D 4 2 2 0 9 -1.2 1 3 -0.3584", "t.psdd:7: or gate 4, element 0: its sub 9 is not defined above"),
        (9, "D 6 2 1 0 2 0.0", "t.psdd:9: circuit: the last or gate must stand at the vtree's root"),
        (9, "T 6 3 3 -0.5", "t.psdd:9: expected the last line to be the root"),
    ],
)
def test_names_the_line(tmp_path: Path, line: int, changed: str, message: str) -> None:
    lines = [*THREE]
    lines[line - 1] = changed
    with pytest.raises(FormatError, match=message):
        read(tmp_path, "\n".join(lines) + "\n")


@FUZZ
@given(st.data())
def test_damaged_files_are_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    """Bytes changed anywhere give a distribution or a FormatError, and nothing else."""
    content = bytearray(("\n".join(THREE) + "\n").encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3) | st.sampled_from(
            [b"-", b" 1", b"\n", b"-inf", b"1e308", b"99999999999999999999"]
        ))  # fmt: skip
    try:
        found = read(tmp_path, bytes(content))
    except FormatError as error:
        assert error.line is not None  # noqa: PT017  # only some contents raise
    else:
        assert np.exp(found.log_likelihood(all_worlds(3))).sum() == pytest.approx(1)


@pytest.fixture(scope="module")
def of_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three distributions of one structure, one of another, and their vtree."""
    folder = tmp_path_factory.mktemp("psdd")
    rows = np.random.default_rng(0).integers(0, 2, (40, 3)).astype(float)
    circuit = initial_circuit(balanced(3))
    for k, part in enumerate(np.split(rows, [10, 25])):
        write_psdd(ProbabilisticCircuit.fit(circuit, part), folder / f"{k}.psdd")
    (folder / "other.psdd").write_text("\n".join(THREE) + "\n")
    write_vtree(balanced(3), folder / "v.vtree")
    return folder


def test_converts_to_the_posterior(of_classes: Path) -> None:
    """By Bayes' rule over all worlds, for two classes and for three."""
    shared = balanced(3)
    for n, priors in ((2, [0.2, 0.8]), (3, [0.5, 0.2, 0.3])):
        files, target = [of_classes / f"{k}.psdd" for k in range(n)], of_classes / "m.lcml"
        shown = output(
            "convert", *files, "--vtree", of_classes / "v.vtree", "--priors", ",".join(map(str, priors)), "-o", target
        )
        assert f"{n} classes" in shown
        logs = [read_psdd(file, shared).log_likelihood(all_worlds(3)) for file in files]
        joint = np.array(priors)[:, None] * np.exp(logs)
        found = load_model(target).predict_proba(all_worlds(3), precision="float64")
        assert found == pytest.approx((joint / joint.sum(axis=0)).T)


def test_converts_the_distribution_of_a_model(of_classes: Path) -> None:
    folder, rows = of_classes, np.random.default_rng(1).integers(0, 2, (30, 3)).astype(float)
    convert([folder / "0.psdd", folder / "1.psdd"], folder / "two.lcml", vtree=folder / "v.vtree")
    model = load_model(folder / "two.lcml")
    with pytest.raises(SettingsError, match="keeps no distribution"):
        convert(folder / "two.lcml", folder / "out.psdd")
    save_model(model.with_missing("expected", rows), folder / "three.lcml")
    convert(folder / "three.lcml", folder / "out.psdd")
    found = read_psdd(folder / "out.psdd", balanced(3))
    fitted = ProbabilisticCircuit.fit(model.circuit, rows)
    assert np.array_equal(found.log_parameters, fitted.log_parameters)


@pytest.mark.parametrize(
    ("files", "options", "error", "message"),
    [
        (["0.psdd"], {}, SettingsError, "expected two .psdd files or more, a class and a prior for each, found 1"),
        (["0.psdd", "1.psdd"], {"priors": [1.0]}, SettingsError, "2 .psdd files, 2 classes and 1 priors"),
        (["0.psdd", "1.psdd"], {"priors": [0.5, 0.6]}, CircuitError, "priors that sum to 1"),
        (["0.psdd", "1.psdd"], {"classes": ("a",)}, SettingsError, "2 .psdd files, 1 classes and 2 priors"),
        (["0.psdd", "other.psdd"], {}, CircuitError, "class 1 has another structure"),
        (["0.psdd", "v.vtree"], {}, SettingsError, "cannot convert"),
    ],
)
def test_refuses_what_has_no_posterior(
    of_classes: Path, files: list[str], options: dict[str, object], error: type[Exception], message: str
) -> None:
    sources = [of_classes / name for name in files]
    with pytest.raises(error, match=message):
        convert(sources, of_classes / "x.lcml", vtree=of_classes / "v.vtree", **options)  # type: ignore[arg-type]
    assert not (of_classes / "x.lcml").exists()
