"""The model file: exact round trips, and every kind of damage refused."""

import contextlib
import io
import json
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.parts import Part
from lcml.circuits.views import WindowView, window_vtree
from lcml.circuits.vtree import balanced
from lcml.errors import CircuitError, FormatError, OutputError
from lcml.formats import load_model, save_model
from lcml.formats.container import TEXT, read_container, write_container
from lcml.inputs.encoders import ScaleEncoder
from lcml.model.model import LogisticCircuit
from tests.model_strategies import assert_same_bits, assert_same_model, models

MEMBERS = [
    "lcml.json",
    "0/circuit/elem_prime.npy",
    "0/circuit/elem_sub.npy",
    "0/circuit/or_start.npy",
    "0/circuit/or_vtree.npy",
    "0/vtree/left.npy",
    "0/vtree/right.npy",
    "0/vtree/variable.npy",
    "0/weighted.npy",
    "bias.npy",
    "encoder/high.npy",
    "encoder/low.npy",
    "weights.npy",
]


@pytest.fixture
def model() -> LogisticCircuit:
    circuit = initial_circuit(balanced(2))
    return LogisticCircuit.flat(
        circuit=circuit,
        encoder=ScaleEncoder(np.zeros(2), np.full(2, 255.0)),
        classes=("no", "yes"),
        element_weights=np.array([[0.1, -0.0, 5e-324, 1.7976931348623157e308]]),
        literal_weights=np.array([[1.0, 2.0, 3.0, 4.0]]),
        bias=np.array([-0.5]),
        provenance={"seed": 7, "settings": {"l2": 0.1}},
    )


@pytest.fixture
def saved(model: LogisticCircuit, tmp_path: Path) -> Path:
    path = tmp_path / "model.lcml"
    save_model(model, path)
    return path


def test_weights_beyond_the_precision_that_computes_are_told(model: LogisticCircuit) -> None:
    """Sums with the fixture's largest weight, the largest float64, overflow in float32, and two such in float64."""
    x = np.zeros((1, 2))
    assert np.isfinite(model.logits(x, precision="float64")).all()
    with pytest.raises(CircuitError, match="sums of weights are beyond float32"):
        model.logits(x)
    twice = replace(model, weights=np.full_like(model.weights, model.weights.max()))
    with pytest.raises(CircuitError, match="sums of weights are beyond float64"):
        twice.logits(x, precision="float64")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(models())
def test_a_round_trip_is_exact_to_the_bit(tmp_path: Path, model: LogisticCircuit) -> None:
    path, again = tmp_path / "m.lcml", tmp_path / "n.lcml"
    save_model(model, path)
    loaded = load_model(path)
    assert_same_model(loaded, model)
    save_model(loaded, again)
    assert path.read_bytes() == again.read_bytes()


def test_the_file_opens_with_standard_tools(saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        assert archive.namelist() == MEMBERS
        header = json.loads(archive.read("lcml.json"))
    assert (header["format"], header["version"]) == ("lcml model", 2)
    assert header["content"] == {
        "classes": ["no", "yes"],
        "encoder": "scale",
        "views": [{"kind": "identity", "n_inputs": 2}],
        "link": "sigmoid",
        "provenance": {"seed": 7, "settings": {"l2": 0.1}},
    }
    with np.load(saved, allow_pickle=False) as arrays:
        assert arrays["0/vtree/variable"].tolist() == [0, 1, -1]
        assert arrays["0/circuit/elem_prime"].tolist() == [0, 0, 2, 2]
        assert arrays["0/circuit/elem_sub"].tolist() == [1, 3, 1, 3]
        assert arrays["weights"].tolist() == [[1.0, 2.0, 3.0, 4.0, 0.1, -0.0, 5e-324, 1.7976931348623157e308]]


def test_a_file_cut_anywhere_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    for size in range(0, len(content), 7):
        saved.write_bytes(content[:size])
        with pytest.raises(FormatError, match=r"model\.lcml: "):
            load_model(saved)


def test_a_flipped_byte_changes_nothing_or_is_refused(saved: Path, model: LogisticCircuit) -> None:
    content = saved.read_bytes()
    refused = 0
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        saved.write_bytes(damaged)
        try:
            loaded = load_model(saved)
        except FormatError:
            refused += 1
        else:
            assert_same_model(loaded, model)
    assert refused > 0.5 * len(content) / 3


@pytest.mark.parametrize(("before", "after"), [(0, 2), (1, 1)])
def test_more_than_one_file_is_refused(saved: Path, before: int, after: int) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content * before + content + b"xx" * (after - before))
    with pytest.raises(FormatError, match="truncated or damaged"):
        load_model(saved)


def test_every_part_is_guarded_by_its_checksum(saved: Path) -> None:
    content = saved.read_bytes()
    with zipfile.ZipFile(saved) as archive:
        ends = [info.header_offset + 30 + len(info.filename) + info.file_size - 1 for info in archive.infolist()]
    for end in ends:
        damaged = bytearray(content)
        damaged[end] ^= 1
        saved.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"truncated or damaged lcml model file \(Bad CRC-32"):
            load_model(saved)


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"\x80\x04garbage" * 9, pickle.dumps({"a": 1}), b"vtree 3\nL 0 1\nL 1 2\nI 2 0 1\n" * 3]
)
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="foreign: is no lcml model file"):
        load_model(path)


def test_another_archive_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros(3))
    with pytest.raises(FormatError, match="is no lcml model file"):
        load_model(tmp_path / "x.npz")


def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read: No such file"):
        load_model(tmp_path / "nothing.lcml")
    with pytest.raises(FormatError, match="cannot be read: Is a directory"):
        load_model(tmp_path)


def test_a_newer_file_and_another_kind_are_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_container(path, "lcml model", 7, {}, {})
    with pytest.raises(FormatError, match="of version 7, newer than the 6 known here: upgrade lcml"):
        load_model(path)
    write_container(path, "lcml checkpoint", 1, {}, {})
    with pytest.raises(FormatError, match="expected a lcml model file, found a 'lcml checkpoint'"):
        load_model(path)


def rewrite(path: Path, changes: dict[str, bytes | None], compression: int = zipfile.ZIP_STORED) -> None:
    """Replace (or drop, with None) members of an archive, with right checksums."""
    with zipfile.ZipFile(path) as archive:
        parts: dict[str, bytes | None] = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, part in (parts | changes).items():
            if part is not None:
                archive.writestr(name, part)


def npy(array: Any, allow_pickle: bool = False) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=allow_pickle)
    return stream.getvalue()


def npy_header(text: str) -> bytes:
    header = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    ("name", "part", "message"),
    [
        ("bias", None, "parts are not those"),
        ("extra", npy(np.zeros(1)), "parts are not those"),
        ("bias", b"", "damaged"),
        ("bias", npy(np.array([{}], dtype=object), allow_pickle=True), "does not fit"),
        ("bias", npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,)}"), "not fit"),
        ("bias", npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 0)}"), "damaged"),
        ("bias", npy_header("(" * 99), "damaged"),
        ("bias", npy(np.array([[0.5]])), "bias': expected type and dimensions"),
        ("bias", npy(np.array([0.5], np.float32)), "bias': expected type and dimensions"),
        ("bias", npy(np.array([np.nan])), "holds no valid model: model: bias holds NaN"),
        ("bias", npy(np.array([0.5, 0.5])), "holds no valid model: model: expected bias of shape"),
        ("0/vtree/left", npy(np.array([-1, -1, 2], np.int32)), "holds no valid model: vtree"),
        ("0/circuit/elem_sub", npy(np.array([1, 3, 1, 99], np.int32)), "holds no valid model: element 3 of or gate 0"),
        ("0/circuit/elem_sub", npy(np.array([1, 1, 1, 3], np.int32)), "not deterministic"),
        ("encoder/high", npy(np.array([-1.0, 255])), "holds no valid model: encoder 'scale'"),
        ("encoder/high", npy(np.full(3, 255.0)), "holds no valid model: encoder 'scale'"),
    ],
)
def test_a_part_that_does_not_fit_is_refused(saved: Path, name: str, part: bytes | None, message: str) -> None:
    rewrite(saved, {f"{name}.npy": part})
    with pytest.raises(FormatError, match=message):
        load_model(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["a", "b", "c"]}, "expected weights of shape"),
        ({"classes": ["a", "a"]}, "distinct classes"),
        ({"classes": [0, True]}, "distinct classes"),
        ({"classes": 3}, "distinct classes"),
        ({"link": "probit"}, "expected a link"),
        ({"provenance": None}, "expected a link of .* and a provenance"),
        ({"encoder": ["scale"]}, "not an encoder"),
    ],
)
def test_a_header_that_describes_no_model_is_refused(saved: Path, change: dict[str, Any], message: str) -> None:
    with zipfile.ZipFile(saved) as archive:
        header = json.loads(archive.read("lcml.json"))
    header["content"] |= change
    rewrite(saved, {"lcml.json": json.dumps(header).encode()})
    with pytest.raises(FormatError, match=message):
        load_model(saved)


@pytest.mark.parametrize(
    "header", [b"", b"[]", b"{}", b"[" * 100_000, b'{"version": NaN}', b"\xff", b'{"version": "1"}']
)
def test_a_header_that_is_none_is_refused(saved: Path, header: bytes) -> None:
    rewrite(saved, {"lcml.json": header})
    with pytest.raises(FormatError, match="truncated or damaged"):
        load_model(saved)


def test_a_compressed_bomb_is_refused_unread(saved: Path) -> None:
    rewrite(saved, {"bias.npy": bytes(1 << 28)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(FormatError, match="not compressed"):
        load_model(saved)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.sampled_from([name for name in MEMBERS if name.startswith(("0/vtree", "0/circuit"))]),
    st.lists(st.integers(-2, 6) | st.integers(-(2**31), 2**31 - 1), max_size=5),
)
def test_structure_that_is_none_is_refused(saved: Path, name: str, values: list[int]) -> None:
    rewrite(saved, {name: npy(np.array(values, np.int32))})
    with contextlib.suppress(FormatError):
        load_model(saved)


def test_provenance_must_be_json(saved: Path, model: LogisticCircuit) -> None:
    before = saved.read_bytes()
    for provenance in ({"a": float("nan")}, {"a": object()}, {"a": {1, 2}}):
        with pytest.raises(FormatError, match="cannot be written as JSON"):
            save_model(replace(model, provenance=provenance), saved)
    assert saved.read_bytes() == before


def test_an_unwritable_place_is_an_output_error(tmp_path: Path, model: LogisticCircuit) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"):
        save_model(model, tmp_path / "file" / "model.lcml")


def test_a_circuit_that_is_no_tautology_round_trips(tmp_path: Path) -> None:
    # (A and B) or (not A and not B), by elements 0 and 3 of the four.
    circuit = Circuit(
        balanced(2), np.array([2], np.int32), np.array([0, 2]), np.array([0, 2], np.int32), np.array([1, 3], np.int32)
    )
    model = LogisticCircuit.flat(
        circuit, ScaleEncoder(np.zeros(2), np.ones(2)), (0, 1), np.ones((1, 2)), None, np.zeros(1)
    )
    save_model(model, tmp_path / "m.lcml")
    assert_same_model(load_model(tmp_path / "m.lcml"), model)


def test_a_container_holds_any_plain_array(tmp_path: Path) -> None:
    arrays = {
        "big_endian": np.array([1.5, 2.5], ">f8"),
        "columns": np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
        "empty": np.empty((0, 4), np.float32),
        "flags": np.array([True, False]),
        "scalar": np.array(3, np.uint8),
    }
    write_container(tmp_path / "c", "lcml checkpoint", 3, {"round": 2}, arrays)
    content, found = read_container(tmp_path / "c", "lcml checkpoint", 3)
    assert content == {"round": 2}
    assert {name: array.tolist() for name, array in found.items()} == {n: a.tolist() for n, a in arrays.items()}
    assert_same_bits(found["columns"], np.arange(6, dtype=np.int64).reshape(2, 3))
    assert found["big_endian"].dtype == np.dtype("<f8")
    with pytest.raises(FormatError, match="array 'objects' is of type object"):
        write_container(tmp_path / "c", "lcml checkpoint", 3, {}, {"objects": np.array([{}, None])})


def test_a_container_holds_text(tmp_path: Path) -> None:
    path, words = tmp_path / "c", ["", "Straße", "a\0", "line\nbreak", "\U0001f353" * 9]
    texts = {"fixed": np.array(["a", "bcd"]), "words": np.array(words, TEXT), "none": np.array([], TEXT)}
    arrays = {"n": np.arange(2), **texts}
    write_container(path, "lcml model", 1, {}, arrays)
    _, found = read_container(path, "lcml model", 1)
    assert {name: array.tolist() for name, array in found.items()} == {
        "fixed": ["a", "bcd"],
        "words": words,
        "n": [0, 1],
        "none": [],
    }
    assert found["words"].dtype == TEXT
    assert not found["words"].flags.writeable
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("lcml.json"))
        assert (header["arrays"], header["texts"]) == (["n"], ["fixed", "none", "words"])
        assert json.loads(archive.read("words.json")) == words
    with pytest.raises(FormatError, match=r"array 'table' of text is of shape \(1, 1\)"):
        write_container(path, "lcml model", 1, {}, {"table": np.array([["a"]])})


def test_a_long_string_makes_no_other_longer(tmp_path: Path) -> None:
    """10,001 strings, one of which has a million letters: as text of one width they would take 40 GB."""
    write_container(tmp_path / "c", "lcml model", 1, {}, {"words": np.array(["x" * 10**6] + ["y"] * 10**4, TEXT)})
    assert (tmp_path / "c").stat().st_size < 1_100_000
    found = read_container(tmp_path / "c", "lcml model", 1)[1]["words"]
    assert (len(found[0]), found[1:].tolist()) == (10**6, ["y"] * 10**4)


@pytest.mark.parametrize(
    "part",
    [
        *(None, b"", b"7", b"null", b"{}", b'["a", 1]', b'["a", null]', b'[["a"]]'),
        *(b'["\\ud800"]', b'["a"', b"\xff", b"[" * 10**5),
    ],
)
def test_text_that_is_none_is_refused(tmp_path: Path, part: bytes | None) -> None:
    write_container(tmp_path / "c", "lcml model", 1, {}, {"words": np.array(["a"])})
    rewrite(tmp_path / "c", {"words.json": part})
    with pytest.raises(FormatError, match="damaged"):
        read_container(tmp_path / "c", "lcml model", 1)


def test_a_threshold_is_stored_where_it_is_not_a_half(model: LogisticCircuit, saved: Path, tmp_path: Path) -> None:
    """Only then is the file one that older programs refuse: they would predict other labels."""
    save_model(replace(model, threshold=0.25), tmp_path / "other.lcml")
    assert load_model(tmp_path / "other.lcml").threshold == 0.25
    assert load_model(saved).threshold == 0.5
    versions = [
        json.loads(zipfile.ZipFile(path).read("lcml.json"))["version"] for path in (saved, tmp_path / "other.lcml")
    ]
    assert versions == [2, 4]
    content, arrays = read_container(tmp_path / "other.lcml", "lcml model", 4)
    for wrong in (1.0, 0, "f1", None):
        write_container(tmp_path / "wrong.lcml", "lcml model", 4, {**content, "threshold": wrong}, arrays)
        with pytest.raises(FormatError, match="expected a threshold, a number above 0 and below 1, found"):
            load_model(tmp_path / "wrong.lcml")


def test_cells_that_overlap_have_a_version_of_their_own(tmp_path: Path) -> None:
    """Older programs, which would take means over cells alone, refuse it."""
    window = WindowView((1, 4, 4), (2, 2), grid=(2, 2), overlap=(1, 0), root=True)
    part = Part.full(window, initial_circuit(window_vtree(window)))
    weights = np.random.default_rng(0).normal(size=(3, part.n_features))
    model = LogisticCircuit(ScaleEncoder(np.zeros(16), np.ones(16)), (part,), ("a", "b", "c"), weights, np.zeros(3))
    save_model(model, tmp_path / "m.lcml")
    assert json.loads(zipfile.ZipFile(tmp_path / "m.lcml").read("lcml.json"))["version"] == 6
    again = load_model(tmp_path / "m.lcml")
    assert again.parts[0].view == window
    x = np.random.default_rng(1).random((5, 16))
    np.testing.assert_array_equal(again.logits(x), model.logits(x))


def test_conditions_that_carry_weights_in_some_cells_alone(tmp_path: Path) -> None:
    """Only the weights that there are stand in the file, which older programs, that know of no such file, refuse."""
    window = WindowView((1, 4, 4), (2, 2), grid=(2, 2))
    part = Part.full(window, initial_circuit(window_vtree(window)))
    weights = np.arange(3.0 * part.n_features).reshape(3, -1) + 1
    weights[:, ::5] = 0
    weights[0, 1] = 0  # of one class only
    encoder = ScaleEncoder(np.zeros(16), np.ones(16))
    model = LogisticCircuit(encoder, (part,), ("a", "b", "c"), weights, np.zeros(3), "softmax")
    assert model.n_parameters == weights.size + 3
    model = replace(model, carries=np.any(weights != 0, axis=0))
    path, again = tmp_path / "m.lcml", tmp_path / "n.lcml"
    save_model(model, path)
    content, arrays = read_container(path, "lcml model", 5)
    assert json.loads(zipfile.ZipFile(path).read("lcml.json"))["version"] == 5
    np.testing.assert_array_equal(arrays["weights"], np.delete(weights, np.s_[::5], axis=1))
    assert model.n_parameters == load_model(path).n_parameters == arrays["weights"].size + 3
    assert model.n_carried == [arrays["weights"].shape[1]]
    save_model(load_model(path), again)
    assert path.read_bytes() == again.read_bytes()
    np.testing.assert_array_equal(load_model(path).weights, weights)

    with pytest.raises(CircuitError, match="weights of 0 where it is False"):
        replace(model, carries=np.arange(part.n_features) > 2)
    more = np.arange(part.n_features) > 0
    write_container(path, "lcml model", 5, content, {**arrays, "carries": more})
    with pytest.raises(FormatError, match=f"{more.sum()} features carry weights, weights has {model.carried.sum()}"):
        load_model(path)
