"""Probabilistic circuits: a distribution over the Boolean worlds of a circuit, and the questions it answers exactly.

Every wire to an element e carries a probability theta_e; those of one or gate sum to 1. A world that the circuit allows
is proved by one element of every gate on its way, and has their product as its probability. With evidence as a
likelihood lambda_l per literal (1 and 0 where the variable is known, 1 and 1 where it is not),

    up     v(l) = lambda_l,   v(g) = sum over its elements e of theta_e v(prime) v(sub),   v(root) = Pr(evidence)
    down   Pr(e | evidence) = Pr(g | evidence) theta_e v(prime) v(sub) / v(g),   that of a child the sum over its wires

in logarithms, so that no number of variables underflows. Deterministic, so that a maximum in place of the sum gives the
most probable world. Since example and distribution share the circuit, Pr(e | evidence) is the expected flow of e.
Sources: Kisa, Van den Broeck, Choi & Darwiche, *Probabilistic Sentential Decision Diagrams*, KR 2014; Khosravi, Choi,
Liang, Vergari & Van den Broeck, *On Tractable Computation of Expected Predictions*, NeurIPS 2019.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lcml.arrays import FloatArray, frozen
from lcml.backend import Backend, get_backend
from lcml.circuits.circuit import Circuit, name_of
from lcml.errors import CircuitError, ContradictionError, DataError
from lcml.inputs.rows import Matrix
from lcml.passes.flows import check_probabilities, example_flows, literal_rows, node_probabilities
from lcml.passes.plan import FlowPlan, compile_plan

SUM_TOLERANCE = 1e-9
"""By how much the parameters of an or gate may miss a sum of 1."""

_CHUNK_EXAMPLES = 256
_LEAST = float(np.log(np.finfo(np.float64).tiny))  # what stands for the logarithm of a marginal of 0 that is divided by


@dataclass(frozen=True, eq=False)
class ProbabilisticCircuit:
    """A circuit with log_parameters, natural logarithms log theta_e (n_elements,), or over one variable, where there is
    no element, those of X_0 and not X_0 (2,).

    Evidence is (n_examples, n_variables): 1 and 0 for what is known, NaN for what is not, and between them soft
    evidence: likelihoods q that X_v is true and 1 - q that it is not. Raises CircuitError where the parameters do not
    fit the circuit or those of an or gate do not sum to 1.
    """

    circuit: Circuit
    log_parameters: FloatArray

    def __post_init__(self) -> None:
        log_parameters = frozen(self.log_parameters, np.float64)
        starts = _starts(self.circuit)
        n_expected = self.circuit.n_elements or self.circuit.n_literals
        if log_parameters.shape != (n_expected,):
            raise CircuitError(f"distribution: expected {n_expected} log parameters, found {log_parameters.shape}")
        sums = np.add.reduceat(np.exp(np.minimum(log_parameters, 1)), starts[:-1])
        if (wrong := np.flatnonzero(~(np.abs(sums - 1) <= SUM_TOLERANCE))).size:
            gate = int(wrong[0]) + self.circuit.n_literals
            raise CircuitError(
                f"distribution: the parameters of {name_of(self.circuit, gate)} sum to {sums[wrong[0]]}, expected 1"
            )
        object.__setattr__(self, "log_parameters", log_parameters)

    @classmethod
    def fit(
        cls,
        circuit: Circuit,
        examples: ArrayLike,
        weights: ArrayLike | None = None,
        smoothing: float = 1.0,
        backend: Backend | None = None,
    ) -> Self:
        """The parameters of largest likelihood, see `fit_log_parameters`, for examples that count as often as weights
        (n_examples,) say. Raises DataError where these are no probabilities, or weights or smoothing below 0."""
        values = np.asarray(examples, dtype=np.float64)
        check_probabilities(values, circuit.n_variables)
        counts = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
        if counts.shape != (len(values),) or not np.all(counts >= 0) or not smoothing >= 0:
            found = f"found shape {counts.shape}, smoothing {smoothing}"
            raise DataError(f"expected {len(values)} weights and a smoothing, all of 0 or more; {found}")
        return cls(circuit, fit_log_parameters(circuit, values, counts[None, :], smoothing, backend)[0])

    def log_likelihood(self, evidence: ArrayLike) -> FloatArray:
        """(n_examples,) log Pr(evidence): of all variables log Pr(x), of some the marginal, -inf where it cannot be."""
        return self._by_chunk(evidence, lambda given: self._up(_log_literals(given))[1][-1], ())

    def marginals(self, evidence: ArrayLike) -> FloatArray:
        """(n_examples, n_variables) Pr(X_v | evidence). Raises ContradictionError where Pr(evidence) = 0."""
        n = self.circuit.n_variables
        found = self._by_chunk(evidence, lambda given: self._down(self._shares(_log_literals(given)))[:n].T, (n,))
        return np.minimum(found, 1)  # a sum of shares may pass it by a rounding

    def mpe(self, evidence: ArrayLike) -> FloatArray:
        """(n_examples, n_variables) the most probable world given the evidence, as 0 and 1; of several the one of the
        first elements. Raises ContradictionError as `marginals`."""

        def of(given: FloatArray) -> FloatArray:
            rows, totals = self._up(_log_literals(given), np.maximum)
            _check_possible(totals[-1])
            return self._down(self._largest(rows))[: self.circuit.n_variables].T

        return self._by_chunk(evidence, of, (self.circuit.n_variables,))

    def sample(self, n_examples: int, seed: int, evidence: ArrayLike | None = None) -> FloatArray:
        """(n_examples, n_variables) worlds drawn given the evidence of one example (n_variables,), else of none.

        Every gate draws an element, from the root down. Raises ContradictionError as `marginals`.
        """
        n, generator = self.circuit.n_variables, np.random.default_rng(seed)
        given = np.asarray(np.full(n, np.nan) if evidence is None else evidence, dtype=np.float64)

        def of(repeated: FloatArray) -> FloatArray:
            rows, totals = self._up(_log_literals(repeated[:1]))
            _check_possible(totals[-1])
            noise = generator.gumbel(size=(len(rows), len(repeated)))  # the largest sum is a draw by the shares
            return self._down(self._largest(rows + noise))[:n].T

        return self._by_chunk(np.broadcast_to(given, (n_examples, *given.shape)), of, (n,))

    def expected_flows(self, evidence: ArrayLike) -> FloatArray:
        """(n_examples, 2 n_variables + n_elements) E[flow(x) | evidence], in the order of `lcml.passes.flows.flows`.

        Exact where what is known is 0 or 1, or nothing is missing. A soft value is the flows' own probability below
        gates of which nothing is missing; above, it is evidence for what is missing, by likelihoods q / Pr(X_v) and
        (1 - q) / Pr(not X_v), which alone would make q of the variable's marginal. Raises as `marginals`.
        """
        return self._by_chunk(evidence, self._expected, (self.circuit.n_literals + self.circuit.n_elements,))

    def _expected(self, given: FloatArray) -> FloatArray:
        circuit, missing = self.circuit, np.isnan(given).T
        evidence = _log_literals(given) - np.where(np.tile(missing, (2, 1)), 0, self._log_prior)
        shares, own = self._shares(evidence), literal_rows(self._plan, given)
        if not circuit.n_or_gates:
            return np.asarray(np.where(np.isnan(own), shares, own)).T
        probability = node_probabilities(self._plan, own)  # NaN for what reads a gap
        plain = probability[circuit.elem_prime] * probability[circuit.elem_sub]
        total = probability[circuit.n_literals + circuit.elem_or]
        plain = np.divide(plain, total, out=np.zeros_like(plain), where=total != 0)
        return self._down(np.where(np.isnan(total), shares, plain)).T

    @cached_property
    def _log_prior(self) -> FloatArray:
        """(2 n_variables, 1) log Pr(l) of every literal without evidence."""
        literals = self._down(self._shares(np.zeros((self.circuit.n_literals, 1))))[: self.circuit.n_literals]
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(np.log(literals), _LEAST))

    @cached_property
    def _plan(self) -> FlowPlan:
        return compile_plan(self.circuit, get_backend("numpy"))

    @cached_property
    def _wires(self) -> Any:
        """(n_nodes, n_elements) how often each element has each node as a child, a sparse matrix."""
        from scipy.sparse import csr_array

        circuit = self.circuit
        children = np.concatenate([circuit.elem_prime, circuit.elem_sub])
        elements = np.tile(np.arange(circuit.n_elements), 2)
        return csr_array((np.ones(len(children)), (children, elements)), (circuit.n_nodes, circuit.n_elements))

    def _up(self, literals: FloatArray, join: np.ufunc = np.logaddexp) -> tuple[FloatArray, FloatArray]:
        """log theta v(prime) v(sub) of every element, and what `join` makes of those of every gate; of one variable
        its literals are the elements of the one gate."""
        circuit, starts = self.circuit, _starts(self.circuit)
        if not circuit.n_or_gates:
            only = literals + self.log_parameters[:, None]
            return only, join.reduceat(only, starts[:-1], axis=0)
        values = np.empty((circuit.n_nodes, literals.shape[1]))
        values[: circuit.n_literals] = literals
        rows = np.empty((circuit.n_elements, literals.shape[1]))
        for first, stop in circuit.levels():
            span = slice(starts[first], starts[stop])
            rows[span] = values[circuit.elem_prime[span]] + values[circuit.elem_sub[span]]
            rows[span] += self.log_parameters[span, None]
            gates = slice(circuit.n_literals + first, circuit.n_literals + stop)
            values[gates] = join.reduceat(rows[span], starts[first:stop] - span.start, axis=0)
        return rows, values[circuit.n_literals :]

    def _shares(self, literals: FloatArray) -> FloatArray:
        """Pr(e | its gate, evidence) of every element."""
        rows, totals = self._up(literals)
        _check_possible(totals[-1])
        total = np.repeat(totals, np.diff(_starts(self.circuit)), axis=0)
        shares = np.full_like(rows, -np.inf)
        np.subtract(rows, total, out=shares, where=total > -np.inf)
        return np.exp(shares, out=shares)

    def _largest(self, rows: FloatArray) -> FloatArray:
        """1 for the first largest element of every gate, 0 for the others."""
        starts, numbers = _starts(self.circuit), np.arange(len(rows))[:, None]
        repeats = np.diff(starts)
        is_top = rows == np.repeat(np.maximum.reduceat(rows, starts[:-1], axis=0), repeats, axis=0)
        first = np.minimum.reduceat(np.where(is_top, numbers, len(rows)), starts[:-1], axis=0)
        return np.asarray(numbers == np.repeat(first, repeats, axis=0), dtype=np.float64)

    def _down(self, shares: FloatArray) -> FloatArray:
        """(2 n_variables + n_elements, n) what reaches every literal and element, by elements' shares of gates."""
        circuit = self.circuit
        if not circuit.n_or_gates:
            return shares
        flows = np.zeros_like(shares)
        for first, stop in reversed(circuit.levels()):
            span = slice(circuit.or_start[first], circuit.or_start[stop])
            above = self._wires[circuit.n_literals + first : circuit.n_literals + stop] @ flows
            above = np.ones_like(above) if stop == circuit.n_or_gates else above
            flows[span] = above[circuit.elem_or[span] - first] * shares[span]
        return np.concatenate([self._wires[: circuit.n_literals] @ flows, flows])

    def _by_chunk(
        self, evidence: ArrayLike, of: Callable[[FloatArray], FloatArray], width: tuple[int, ...]
    ) -> FloatArray:
        """What `of` makes of checked evidence, a chunk of examples at a time."""
        given = np.asarray(evidence, dtype=np.float64)
        check_probabilities(np.where(np.isnan(given), 0, given), self.circuit.n_variables)
        firsts = range(0, len(given), _CHUNK_EXAMPLES)
        return np.concatenate([np.empty((0, *width)), *(of(given[i : i + _CHUNK_EXAMPLES]) for i in firsts)])


def fit_log_parameters(
    circuit: Circuit, examples: Matrix, weights: FloatArray, smoothing: float = 1.0, backend: Backend | None = None
) -> FloatArray:
    """(n_sets, n_parameters) log theta of the distributions that make examples (n_examples, n_variables) most likely,
    one for every row of weights (n_sets, n_examples), which says how often each example counts.

    In closed form: theta_e = (N_e + smoothing) / (N_g + k smoothing) for one of the k elements of gate g, with N_e the
    sum of e's flows over the examples and N_g that of g's elements. Of soft examples that is the largest expected log
    likelihood of worlds drawn from them. Raises ContradictionError for an example that the circuit excludes.
    """
    backend = backend or get_backend("numpy")
    plan, counts = compile_plan(circuit, backend), np.zeros((len(weights), circuit.n_literals + circuit.n_elements))
    for first in range(0, len(examples), backend.chunk_examples):
        rows = slice(first, first + backend.chunk_examples)
        flows = backend.to_host(example_flows(plan, backend.asarray(examples[rows], dtype=np.float64)))
        counts += weights[:, rows] @ flows.T
    counts = counts[:, circuit.n_literals :] if circuit.n_or_gates else counts
    counts, starts = counts + smoothing, _starts(circuit)
    sizes = np.diff(starts)
    totals = np.repeat(np.add.reduceat(counts, starts[:-1], axis=1), sizes, axis=1)
    theta = np.where(totals > 0, counts, 1) / np.where(totals > 0, totals, np.repeat(sizes, sizes))  # unreached: equal
    with np.errstate(divide="ignore"):
        log_theta: FloatArray = np.log(theta)
    return log_theta


def _starts(circuit: Circuit) -> NDArray[np.integer]:
    """Offsets of every gate's parameters; one variable's literals are those of one gate."""
    return circuit.or_start if circuit.n_or_gates else np.array([0, circuit.n_literals])


def _log_literals(evidence: FloatArray) -> FloatArray:
    """(2 n_variables, n_examples) log likelihoods of the literals."""
    known = np.where(np.isnan(evidence), 1, evidence).T
    against = np.where(np.isnan(evidence), 0, evidence).T
    with np.errstate(divide="ignore"):
        return np.concatenate([np.log(known), np.log1p(-against)])


def _check_possible(log_likelihood: FloatArray) -> None:
    if (wrong := np.flatnonzero(log_likelihood == -np.inf)).size:
        raise ContradictionError(f"example {wrong[0]} of the chunk has probability 0 under the distribution")
