"""Which row of a chunk every kept feature has, as the circuits grow."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lcml.circuits.parts import GrownPart, Part


def rows_after(
    before: Sequence[Part], grown: Sequence[GrownPart], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[tuple[NDArray[np.int64], NDArray[np.int64]]]]:
    """The row of every feature after growth, and per part the flows that are new and the rows they get.

    A feature that stays keeps its row; a new one takes a row that became free, or one behind the last.
    """
    row_of, is_new, new_flows = [], [], []
    first = 0
    for old, new in zip(before, grown, strict=True):
        n_cells = old.view.n_cells
        old_rows = np.full((n_cells, len(old.weighted)), -1)
        old_rows[:, old.weighted] = rows[first : first + old.n_features].reshape(n_cells, -1)
        first += old.n_features
        flows = new.part.flows
        found = np.where(new.unchanged[flows], old_rows[:, new.origin[flows]], -1)
        row_of.append(found.ravel())
        is_new.append(found[0] < 0)
        new_flows.append(flows[found[0] < 0])
    after = np.concatenate(row_of)
    spare = np.setdiff1d(np.arange(len(after)), after)
    after[after < 0] = spare[: np.count_nonzero(after < 0)]
    fresh, first = [], 0
    for new, marks, flows in zip(grown, is_new, new_flows, strict=True):
        part_rows = after[first : first + new.part.n_features].reshape(new.part.view.n_cells, -1)
        fresh.append((flows, part_rows[:, marks].ravel()))
        first += new.part.n_features
    return after, fresh
