"""`lcml train` as a user meets it: real signals to processes of its own, real files, a real tracking store."""

import contextlib
import json
import os
import re
import signal
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from lcml.cli import app
from lcml.cli.progress import TrainProgress
from lcml.cli.signals import StopSignals
from lcml.formats import load_model
from lcml.learning.settings import LearnSettings
from lcml.model.model import LogisticCircuit
from lcml.runs.config import TrainConfig
from lcml.runs.records import RoundRecord
from lcml.tracking import find_run, list_runs
from tests.cli.settings_page import PAGE, page
from tests.forked import Forked

ENVIRONMENT = os.environ | {"OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200"}
QUICK = ("--rounds", "2", "--round-iterations", "5", "--final-iterations", "5")
SLOW = ("--rounds", "60", "--patience", "1000", "--growth", "0.02", "--round-iterations", "40", "--tolerance", "0")
KEYS = {
    *("data", "n_train", "n_valid", "n_test", "n_variables", "n_classes", "n_elements", "n_or_gates", "n_parameters"),
    *("rounds", "train_accuracy", "valid_accuracy", "valid_f1_macro", "test_accuracy", "seconds", "peak_memory_mb"),
    *("backend", "device", "seed", "model_path", "run_id", "tracking_uri"),
}


def run(arguments: Sequence[str], directory: Path, exit_code: int = 0) -> tuple[str, str]:
    """stdout and stderr of `lcml train` in that directory, in this process, which must end with that exit code."""
    with contextlib.chdir(directory):
        result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["train", *arguments])
    assert result.exit_code == exit_code, result.output
    return result.stdout, result.stderr


def signalled_in_round(number: int, signals: int, arguments: Sequence[str], directory: Path) -> tuple[int, str, str]:
    """Exit code, stdout and the rest of stderr of a training that gets a signal once round `number` has ended."""
    process = Forked("-m", "lcml", "train", *arguments, cwd=directory, env=ENVIRONMENT)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(f"round {number}:"):
            process.send_signal(signals)
            break
    out, err = process.communicate()
    return process.wait(), out, err


def invoke(arguments: Sequence[str]) -> Result:
    """`lcml train` in this process."""
    return CliRunner().invoke(app, ["train", *arguments])


def uri(directory: Path) -> str:
    return f"sqlite:///{directory}/mlruns/mlflow.db"


def weights(model: LogisticCircuit) -> bytes:
    circuit = model.circuit
    arrays = (circuit.or_start, circuit.elem_prime, circuit.elem_sub, model.weights, model.bias)
    return b"".join(array.tobytes() for array in arrays)


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A directory in which a training was recorded, and what the training printed."""
    directory = tmp_path_factory.mktemp("tracked")
    out, err = run(["iris", "--json", "--experiment", "flowers", *QUICK], directory)
    assert out.count("\n") == 1
    assert [line.split(":")[0] for line in err.splitlines()][:1] == ["round 0"]
    result = json.loads(out)
    settings = (directory / "mlruns" / result["run_id"] / "artifacts" / "settings.toml").read_text()
    return directory, result | {"settings": settings}


def test_a_profile_tells_the_seconds_of_every_phase(tmp_path: Path) -> None:
    arguments = ["iris", "--no-tracking", *QUICK]
    table, _ = run([*arguments, "--quiet", "--profile"], tmp_path)
    rows = dict(line.split()[:2] for line in table.splitlines() if line.strip().endswith("%"))
    assert {"prepare", "features", "fit", "evaluate", "score", "split", "all"} <= rows.keys()
    profile = json.loads(run([*arguments, "--json"], tmp_path)[0])["profile"]
    assert {"prepare", "features", "fit", "evaluate", "score", "split", "save and test"} == profile.keys()
    assert all(seconds >= 0 for seconds in profile.values())


def test_a_recorded_training(tracked: tuple[Path, dict[str, Any]]) -> None:
    directory, result = tracked
    assert set(result) >= KEYS
    assert {path.name for path in directory.iterdir()} == {"iris.lcml", "checkpoints", "mlruns"}
    model = load_model(directory / result["model_path"])
    assert (result["data"], result["seed"], result["backend"], result["device"]) == ("iris", 0, "numba", "cpu")
    assert (result["n_train"], result["n_valid"], result["n_test"]) == (108, 12, 30)
    assert (result["n_variables"], result["n_classes"]) == (4, 3)
    assert result["n_elements"] == model.circuit.n_elements
    assert result["n_or_gates"] == model.circuit.n_or_gates
    assert result["n_parameters"] == model.n_parameters
    assert result["tracking_uri"] == "sqlite:///mlruns/mlflow.db"
    (summary,) = list_runs(uri(directory), "flowers")
    assert (summary.run_id, summary.status) == (result["run_id"], "FINISHED")
    assert summary.metrics["final/test_accuracy"] == result["test_accuracy"]
    assert summary.params["rounds"] == "2"
    assert Path(summary.tags["lcml.checkpoint"]) == directory / result["checkpoint_path"]


def test_a_run_goes_on_under_its_id_or_name(tracked: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    directory, result = tracked
    options = ["--json", "--rounds", "3", "--tracking-uri", uri(directory), "-o", str(tmp_path / "on.lcml")]
    out, _ = run(["--resume", result["run_id"][:12], *options], tmp_path)
    assert json.loads(out)["run_id"] == result["run_id"]
    (summary,) = list_runs(uri(directory), "flowers")
    assert (summary.status, summary.tags["lcml.changed.rounds"]) == ("FINISHED", "3")
    assert summary.metrics["final/test_accuracy"] == json.loads(out)["test_accuracy"]
    named = find_run(Path(result["checkpoint_path"]).stem, uri(directory))
    assert named.run_id == result["run_id"]


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_with_the_best_model_so_far(
    tracked: tuple[Path, dict[str, Any]], tmp_path: Path, number: int, exit_code: int
) -> None:
    directory, _ = tracked  # where a store is: making one takes seconds
    options = ["--json", "--tracking-uri", uri(directory), "--run-name", str(int(number))]
    code, out, err = signalled_in_round(1, number, ["digits", *options, *SLOW], tmp_path)
    assert (code, "Traceback" in err) == (exit_code, False)
    result = json.loads(out)
    assert result["stopped"]
    assert 1 <= result["rounds"] < 60
    model = load_model(tmp_path / "digits.lcml")
    assert model.circuit.n_elements == result["n_elements"]
    assert result["test_accuracy"] > 0.9
    summary = find_run(str(int(number)), uri(directory))
    assert (summary.run_id, summary.status) == (result["run_id"], "KILLED")


def test_a_tracking_server_that_does_not_answer_stops_nothing(tmp_path: Path) -> None:
    out, err = run(["iris", "--json", "--tracking-uri", "http://127.0.0.1:9", *QUICK], tmp_path)
    assert (json.loads(out)["run_id"], json.loads(out)["tracking_uri"]) == (None, "http://127.0.0.1:9")
    assert "cannot record this run at http://127.0.0.1:9" in err
    assert load_model(tmp_path / "iris.lcml").classes == ("setosa", "versicolor", "virginica")


def test_features_that_outgrow_the_memory_are_told_of_once(tmp_path: Path) -> None:
    """From the round on whose features of 1,294 training and 144 validation examples take more than 1 MB."""
    options = "--growth 3 --rounds 4 --l2-path 0.1 --precision float32 --memory-budget 1 --no-tracking"
    lines = run(["digits", *options.split()], tmp_path)[1].splitlines()
    (at,) = (number for number, line in enumerate(lines) if "features would take" in line)
    taken = []
    for line in lines[:at]:
        if found := re.search(r"^round .* ([\d,]+) parameters", line):
            taken.append((int(found[1].replace(",", "")) / 10 - 1) * 1438 * 4 / 2**20)
    assert taken[-2] <= 1 < taken[-1]
    assert f"features would take {taken[-1]:,.0f} MB," in lines[at]


def test_the_end_says_what_to_do_next(tmp_path: Path) -> None:
    out, err = run(["iris", "--no-tracking", "--quiet", "-o", "my model.lcml", *QUICK], tmp_path)
    assert err == ""
    assert "lcml evaluate 'my model.lcml' iris" in out
    assert "mlflow" not in out


def test_a_full_disk_is_an_error_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    command = ["-m", "lcml", "train", "digits", "--no-tracking", "--quiet", *QUICK]
    process = Forked(*command, cwd=tmp_path, env=ENVIRONMENT, largest_file=20_000)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert err.startswith("Error: cannot write checkpoints/digits-")
    assert err.count("\n") == 1
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".checkpoint"]


def test_without_mlflow_there_is_a_hint(tmp_path: Path) -> None:
    gone = "for name in [name for name in sys.modules if name.split('.')[0] == 'mlflow']: del sys.modules[name]"
    program = f"import sys\n{gone}\nsys.modules['mlflow'] = None; from lcml.cli import main; main()"
    process = Forked("-c", program, "train", "iris", *QUICK, cwd=tmp_path, env=ENVIRONMENT)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert "lcml[tracking]" in err
    assert "--no-tracking" in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


ONE_CLASS = "a,b,label\n" + "1,2,yes\n" * 20
TEXT = "a,b,label\n" + "1,two,yes\n" * 20
NO_ROWS = "a,b,label\n"
QUIET_ERRORS = [
    (["no-such-set"], "no data set and no file 'no-such-set'"),
    (["one.csv", "--target", "label"], "one class only, 'yes'"),
    (["text.csv", "--target", "label"], "two"),
    (["empty.csv", "--target", "label"], "empty.csv"),
    (["iris", "-o", "/proc/model.lcml"], "cannot write /proc/model.lcml"),
    (["iris", "-o", "one.csv/model.lcml"], "cannot write one.csv/model.lcml"),
    (["iris", "--valid-fraction", "0"], "the validation set is empty"),
    (["iris", "--max-parameters", "3"], "max_parameters"),
    (["iris", "--encoder", "divide"], "divisor"),
    (["iris", "--no-tracking", "--run-name", "a"], "no_tracking and run_name contradict each other"),
    (["iris", "--tracking-uri", "file:./mlruns"], "tracking address"),
    (["iris", "--growth", "nan"], "growth"),
    (["iris", "--seed", "-1"], "seed"),
    (["--resume", "one.csv"], "one.csv: is no lcml checkpoint file"),
    (["--resume", "nowhere"], "--resume nowhere: there is no such file, and no such run either"),
    (["--resume", "one.csv", "--seed", "3"], "--seed cannot change in a run that goes on"),
    (["--config", "no.toml"], "cannot read the settings no.toml"),
    (["--config", "one.csv"], "one.csv is no TOML file"),
    (["--config", "unknown.toml"], "unknown.toml: unknown key 'max-element'; did you mean 'max_elements'?"),
    (["--config", "type.toml"], "type.toml: rounds: expected a whole number of at least 0, found '3'"),
    (["--config", "choice.toml"], "choice.toml: link: expected one of sigmoid, softmax, found 'cosine'"),
    (
        ["--config", "list.toml"],
        "list.toml: l2_path: expected a list, each a finite number of at least 0, found [0.1, True]",
    ),
    (
        ["--config", "pair.toml"],
        "pair.toml: vtree_offset: expected a list of 2, each a whole number of at least 0, found [1]",
    ),
    (["--config", "twice.toml"], "twice.toml: 'time_limit' is given twice"),
    (["--config", "range.toml"], "range.toml: depth: expected a whole number of at least 0 and at most 64, found 65"),
    (["--config", "deep.toml"], "deep.toml is no TOML file: it is nested too deeply"),
    (
        ["--config", "digits.toml"],
        "digits.toml: rounds: expected a whole number of at least 0 that fits 64 bits, found",
    ),
    (
        ["--config", "hex.toml"],
        "hex.toml: rounds: expected a whole number of at least 0 that fits 64 bits, found a val",
    ),
    (["--config", "key.toml"], "key.toml: unknown key 'xxxxx"),
    (["iris", "--rounds", "9" * 4000], "rounds: expected a whole number of at least 0 that fits 64 bits, found 999"),
    (["iris", "--view", "window=" + "9" * 5000], "view 'window=9999"),
    (["iris", "--channels", "x" * 5000], "channels: "),
    (["iris", "--test-fraction", "1"], "test_fraction: expected a finite number of at least 0 and below 1, found 1.0"),
    (["--config", "resume.toml"], "resume.toml: unknown key 'resume'"),
    (["--recipe", "pudding"], "recipe: expected one of fashion-10pct, "),
    (["--recipe", "mnist-flat", "--resume", "one.csv"], "--recipe cannot change in a run that goes on"),
]


@pytest.mark.parametrize(("arguments", "message"), QUIET_ERRORS, ids=[" ".join(a) for a, _ in QUIET_ERRORS])
def test_an_error_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    files = {
        "one.csv": ONE_CLASS,
        "text.csv": TEXT,
        "empty.csv": NO_ROWS,
        "unknown.toml": "max-element = 3\n",
        "type.toml": 'rounds = "3"\n',
        "choice.toml": 'link = "cosine"\n',
        "list.toml": "l2-path = [0.1, true]\n",
        "pair.toml": "vtree_offset = [1]\n",
        "twice.toml": "time-limit = 3\ntime_limit = 4\n",
        "resume.toml": 'resume = "x"\n',
        "range.toml": "depth = 65\n",
        "deep.toml": "view = " + "[" * 100_000,
        "digits.toml": f"rounds = {'9' * 4000}\n",
        "hex.toml": f"rounds = 0x{'f' * 9000}\n",
        "key.toml": f"{'x' * 30_000} = 1\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    result = invoke(arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert len(result.stderr) < 2500
    assert {path.name for path in tmp_path.iterdir()} == set(files)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["iris", "--roundz", "3"], "--rounds"),
        (["iris", "--rounds", "9" * 5000], "--rounds"),
        (["iris", "--backend", "x" * 5000], "[...]"),
        (["iris", "--rounds", "many"], "--rounds"),
        (["iris", "--backend", "tpu"], "tpu"),
        (["iris", "wine"], "wine"),
    ],
)
def test_an_option_that_is_unknown_or_not_of_its_type_is_a_usage_error(arguments: list[str], message: str) -> None:
    result = invoke(arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr) < 2500


def test_a_file_may_begin_with_a_byte_order_mark_and_paths_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.toml").write_bytes('\ufeffrounds = 0\noutput = "~/model.lcml"\nview = "whole"\n'.encode())
    result = invoke(["iris", "--config", "~/a.toml", "--no-tracking", "-q", "--checkpoint-dir", "~/kept"])
    assert (result.exit_code, result.stderr) == (0, "")
    settings = cast("dict[str, Any]", load_model(tmp_path / "model.lcml").provenance["settings"])
    assert (settings["rounds"], settings["view"]) == (0, ["whole"])
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_the_page_of_settings_is_that_of_the_program() -> None:
    assert PAGE.read_text() == page(), "python -m tests.cli.settings_page writes it anew"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("lcml trai", {"train"}),
        ("lcml train i", {"iris"}),
        ("lcml train iris.", set()),  # a shell completes files then
        ("lcml evaluate a.lcml fash", {"fashion-mnist"}),
        ("lcml train --recipe fashion-1", {"fashion-10pct", "fashion-164k"}),
        ("lcml train --channels con", {"contrast+", "contrast-"}),
        ("lcml train --encoder b", {"boolean"}),
        ("lcml train --max-", {"--max-elements", "--max-parameters"}),
    ],
)
def test_completion(words: str, expected: set[str]) -> None:
    number = str(len(words.split()) - 1)
    variables = {"_LCML_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": number}
    done = CliRunner().invoke(app, [], env=variables, prog_name="lcml")
    assert set(done.stdout.split()) == expected


def test_a_mistyped_command_is_told_what_was_meant() -> None:
    result = CliRunner().invoke(app, ["trian"])
    assert result.exit_code == 2
    assert "No such command 'trian'. Did you mean 'train'?" in result.stderr


def test_the_command_line_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(
        'data = "iris"\nno-tracking = true\nrounds = 1\nseed = 5\njson = true\nquiet = true\nl2_path = [1, 0.1]\n'
        "literal-weights = false\ntime-limit = 100\n"
    )
    result = invoke(["--config", "a.toml", "--seed", "6", "-o", "b.lcml"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["seed"] == 6
    settings = cast("dict[str, Any]", load_model("b.lcml").provenance["settings"])
    assert (settings["data"], settings["rounds"], settings["seed"]) == ("iris", 1, 6)
    assert (settings["l2_path"], settings["literal_weights"], settings["time_limit"]) == ([1, 0.1], False, 100)


def test_a_file_and_the_command_line_win_over_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text("l2 = 0.01\nminimum-support = 3\nl2_path = [0.1]\n")
    options = ["--recipe", "mnist-flat", "--config", "a.toml", "--minimum-support", "4", "--rounds", "1"]
    result = invoke(["iris", *options, "--no-tracking", "-q"])
    assert (result.exit_code, result.stderr) == (0, "")
    settings = cast("dict[str, Any]", load_model("iris.lcml").provenance["settings"])
    assert (settings["data"], settings["max_parameters"]) == ("iris", 164000)
    assert (settings["l2"], settings["l2_path"], settings["minimum_support"]) == (0.01, [0.1], 4)


def test_the_settings_of_a_run_are_a_file_for_the_next(
    tracked: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, result = tracked
    monkeypatch.chdir(tmp_path)
    Path("again.toml").write_text(result["settings"] + 'experiment = "not wanted"\n')
    assert invoke(["--config", "again.toml", "--no-tracking", "-q"]).exit_code == 0
    assert weights(load_model("iris.lcml")) == weights(load_model(directory / "iris.lcml"))


FLAGS = """--target --data-dir --train-fraction --valid-fraction --test-fraction --encoder --column --class-weight
    --divisor --image-shape --channels --pool --patches --augment --cluster --view --vtree --vtree-offset --structure
    --tree-depth
    --criterion --depth --growth --minimum-support --score-examples --growth-examples --prune-to --trees --rounds
    --max-elements --max-parameters --time-limit --patience --metric --threshold --folds --l2 --l2-path --refit
    --no-refit --link --literal-weights --no-literal-weights --learning-rate --average --no-average --solver --init
    --round-iterations --final-iterations --tolerance --backend
    --precision --memory-budget --seed --output -o --checkpoint-dir --missing --export --no-export --report
    --no-report --no-tracking --tracking-uri --experiment --run-name --recipe --config --resume --json --quiet -q
    --profile"""


def test_every_option_has_its_flags_and_the_default_of_the_setting() -> None:
    command = get_command(app).get_command(None, "train")  # type: ignore[attr-defined]
    (argument,) = (part for part in command.params if part.param_type_name == "argument")
    options = [part for part in command.params if part.param_type_name == "option"]
    flags = [flag for part in options for flag in (*part.opts, *part.secondary_opts)]
    assert (argument.name, flags) == ("data", FLAGS.split())
    settings = {name: tuple(v) if isinstance(v, list) else v for name, v in TrainConfig().as_dict().items()}
    defaults = {part.name: tuple(v) if isinstance(v := part.default, list) else v for part in command.params}
    assert {name: defaults[name] or None for name in settings} == {name: v or None for name, v in settings.items()}


def test_a_second_ctrl_c_does_not_ask(capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopSignals() as signals:
        assert (signals.requested, signals.exit_code) == (False, 0)
        os.kill(os.getpid(), signal.SIGTERM)
        assert (signals.requested, signals.exit_code) == (True, 143)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert "Stopping after the step at hand" in capfd.readouterr().err


def test_progress_names_penalties_and_the_refit(capsys: pytest.CaptureFixture[str]) -> None:
    grown = RoundRecord("grow", 0, 0.1, 1234, 5, 56789, 2, 10, 0.5, 0.9, 0.4, 0.875, 0.7, True, {"fit": 10.0})
    settings = LearnSettings(rounds=0, l2_path=(0.1, 0.2), round_iterations=20, final_iterations=30, refit=True)
    with TrainProgress(settings) as progress:
        for phase in ("grow", "refine", "refine", "refit"):
            progress.round(replace(grown, phase=phase))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["round 0", "penalty 1/2", "penalty 2/2", "refit"]
    # fits of 30 iterations of a second each: three to come, then two, one, none
    assert [line.split("up to ")[1] for line in lines] == ["1:30 left", "1:00 left", "0:30 left", "0:00 left"]


def test_progress_counts_the_penalties_of_both_fits_of_a_mean(capsys: pytest.CaptureFixture[str]) -> None:
    grown = RoundRecord("grow", 0, 0.1, 1234, 5, 56789, 2, 10, 0.5, 0.9, 0.4, 0.875, 0.7, True, {"fit": 10.0})
    with TrainProgress(LearnSettings(rounds=0, l2_path=(0.1, 0.2)), averages=True) as progress:
        for phase in ("grow", "refine", "refine", "average", "average"):
            progress.round(replace(grown, phase=phase))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["round 0", *(f"penalty {number}/4" for number in range(1, 5))]


def test_a_terminal_shows_a_bar_per_round(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    record = RoundRecord("grow", 0, 0.1, 1234, 5, 56789, 2, 10, 0.5, 0.9, 0.4, 0.875, 0.7, True, {"fit": 10.0})
    settings = LearnSettings(rounds=3, l2_path=(0.1, 0.2), round_iterations=20, final_iterations=30)
    with TrainProgress(settings) as progress:
        progress.tick()
        progress.round(record)
        progress.say("a note")
    shown = capsys.readouterr().err
    assert "round 0" in shown
    assert "1,234 elements, 56,789 parameters, loss 0.5000, validation accuracy 87.50%" in shown
    assert "a note" in shown
    assert "up to 1:30 left" in shown  # three rounds of 10 s, and 2 x 30 iterations of 1 s


def test_a_name_that_is_no_text_is_recorded_with_escapes(
    tracked: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file's name may be any bytes; what MLflow keeps is UTF-8."""
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"flo\xffwers.csv")
    Path(name).write_text("a,b,label\n" + "".join(f"{i},{i % 7},{'ny'[i % 2]}\n" for i in range(60)))
    directory, _ = tracked
    options = ["--tracking-uri", uri(directory), "--experiment", "escapes", "-q", "--json", *QUICK]
    result = invoke([name, *options])
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    (summary,) = list_runs(uri(directory), "escapes")
    assert (summary.run_id, summary.status, summary.params["data"]) == (
        found["run_id"],
        "FINISHED",
        r"flo\udcffwers.csv",
    )
    assert summary.tags["lcml.data"] == r"flo\udcffwers"
    artifacts = directory / "mlruns" / summary.run_id / "artifacts"
    assert tomllib.loads((artifacts / "settings.toml").read_text())["data"] == r"flo\udcffwers.csv"
    assert find_run(Path(found["checkpoint_path"]).stem, uri(directory)).run_id == summary.run_id
    again = invoke(
        ["--resume", found["checkpoint_path"], "--rounds", "3", "-q", "--json", "--tracking-uri", uri(directory)]
    )
    assert json.loads(again.stdout)["run_id"] == summary.run_id
