"""The progress of a training on stderr: a bar per round in a terminal, a line per round elsewhere."""

import math
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

_WIDE = 110  # columns of a terminal from which figures are spelt out beside the bar

if TYPE_CHECKING:
    from lcml.learning.settings import LearnSettings
    from lcml.runs.records import RoundRecord

_OF_TABLES = "additive", "trees"
_OF_PENALTIES = "refine", "average"


class TrainProgress(AbstractContextManager["TrainProgress"]):
    """Shows rounds as they end; `first_round` is the one at hand when the context opens; prunes: what is learned may be
    pruned then, so that the time left is not known; averages: every penalty is tried twice."""

    def __init__(
        self,
        settings: "LearnSettings",
        first_round: int = 0,
        *,
        quiet: bool = False,
        prunes: bool = False,
        averages: bool = False,
    ) -> None:
        self._settings, self._quiet, self._first_round, self._prunes = settings, quiet, first_round, prunes
        self._console = Console(stderr=True, highlight=False)
        self._n_penalties = len(set(settings.l2_path)) * (2 if averages else 1)
        self._n_refined = 0
        self._elapsed = 0.0
        self._bars: Progress | None = None
        if self._console.is_terminal and not quiet:
            name, figures = TextColumn("{task.description:<11}"), TextColumn("{task.fields[figures]}")
            self._bars = Progress(name, BarColumn(bar_width=16), figures, TimeElapsedColumn(), console=self._console)

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
            self._begin(f"round {self._first_round}", self._settings.round_iterations, "")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bars is not None:
            for task in self._bars.tasks:
                if not task.finished:
                    self._bars.remove_task(task.id)
            self._bars.stop()

    def say(self, message: str) -> None:
        """A line beside the progress."""
        self._console.print(message, markup=False, soft_wrap=True)

    def tick(self) -> None:
        """An iteration of a fit has ended."""
        if self._bars is not None and self._bars.tasks:
            task = self._bars.tasks[-1]
            if task.total is not None and task.completed < task.total - 1:
                self._bars.advance(task.id)

    def round(self, record: "RoundRecord") -> None:
        """A round, or a step of the final path, has ended."""
        self._n_refined += record.phase in _OF_PENALTIES
        at_penalty = f"penalty {self._n_refined}/{self._n_penalties}"
        of_phase = {
            "grow": f"round {record.round}",
            "refine": at_penalty,
            "average": at_penalty,
            "trees": f"{record.round} trees",
            "prune": "pruning",
        }
        name = of_phase.get(record.phase, record.phase)
        words = "elements", "parameters", "validation accuracy"
        if self._bars is not None and self._console.width < _WIDE:
            words = "el.", "par.", "valid"
        figures = (
            f"{record.n_elements:,} {words[0]}, {record.n_parameters:,} {words[1]}, loss {record.train_loss:.4f}, "
            f"{words[2]} {record.valid_accuracy:.2%}"
        )
        left = self._left(record)
        if self._bars is not None:
            task = self._bars.tasks[-1].id
            self._bars.update(task, description=name, total=1, completed=1, figures=figures)
            if record.phase == "grow":
                self._begin(f"round {record.round + 1}", self._settings.round_iterations, left)
            elif record.phase in _OF_TABLES:
                self._begin("trees", 1, left)
            elif self._n_refined < self._n_penalties:
                self._begin(f"penalty {self._n_refined + 1}/{self._n_penalties}", self._settings.final_iterations, left)
            elif self._prunes and record.phase in (*_OF_PENALTIES, "prune"):
                self._begin("pruning", 1, left)
            elif self._settings.refit and record.phase in _OF_PENALTIES:
                self._begin("refit", self._settings.final_iterations, left)
        elif not self._quiet:
            self.say(f"{name}: {figures}{left and ', '}{left}")

    def _begin(self, name: str, total: int, figures: str) -> None:
        assert self._bars is not None
        self._bars.add_task(name, total=total, figures=figures)

    def _rounds_left(self, record: "RoundRecord") -> int:
        """Rounds until a limit is met, if each grows by its full share."""
        settings = self._settings
        limits = (settings.max_elements, record.n_elements), (settings.max_parameters, record.n_parameters)
        room = min((limit / now for limit, now in limits if limit is not None), default=math.inf)
        by_size = math.ceil(max(0.0, math.log(room)) / math.log1p(settings.growth)) if room < math.inf else math.inf
        return int(min(settings.rounds - record.round, by_size))

    def _left(self, record: "RoundRecord") -> str:
        """How long the rest takes at most, if rounds take as long as this one; nothing for tables and pruning."""
        if self._prunes or record.phase in _OF_TABLES:
            return ""
        settings, seconds = self._settings, sum(record.seconds.values())
        self._elapsed += seconds
        n_fits = self._n_penalties - self._n_refined + (settings.refit and record.phase != "refit")
        iterations = n_fits * settings.final_iterations
        left = iterations * record.seconds.get("fit", 0.0) / max(record.n_iterations, 1)
        if record.phase == "grow":
            left += self._rounds_left(record) * seconds
        if settings.time_limit is not None:
            left = min(left, max(0.0, settings.time_limit - self._elapsed))
        minutes, rest = divmod(round(left), 60)
        return f"up to {minutes}:{rest:02d} left"
