"""What a learner fits to and what it chooses by: training and validation examples under circuits that grow."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from lcml.backend import Backend
from lcml.backend.spread import Engine
from lcml.circuits.parts import GrownPart, Part
from lcml.circuits.splits import Split
from lcml.errors import SettingsError
from lcml.learning.objective import Objective
from lcml.learning.parameters import Parametrisation
from lcml.learning.sampling import sample_size, stratified_order
from lcml.learning.selection import apply_to_parts, parts_after
from lcml.learning.settings import LearnSettings
from lcml.learning.state import EncodedSet
from lcml.passes.feature_store import Features, FeatureStore
from lcml.passes.spread_store import SpreadStore


class LearningSets:
    """The objectives `train` and `valid` over the same circuits, once they are opened.

    examples: those to train on, in the order in which growth sees more and more of them; round: how many rounds of the
    history the circuits have; engine: holds the examples, where this process does not. Raises SettingsError for growth
    on a sample there.
    """

    train: Objective
    valid: Objective
    round: int

    def __init__(
        self,
        initial: Sequence[Part],
        train: EncodedSet,
        valid: EncodedSet,
        n_classes: int,
        settings: LearnSettings,
        backend: Backend,
        *,
        most_features: int | None,
        engine: Engine | None,
    ) -> None:
        self._initial, self._n_classes, self._settings = tuple(initial), n_classes, settings
        self._backend, self._most_features, self._engine = backend, most_features, engine
        self.examples, self._valid_examples = train, valid
        if self._growth_size(initial, len(train.labels)) < len(train.labels):
            if engine is not None:
                raise SettingsError(
                    "growth_examples: on a cluster every machine works on the examples that it has; leave it out"
                )
            self.examples = train.ordered(stratified_order(train.labels, settings.seed))

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.train.features.parts

    def open(
        self, history: Sequence[tuple[Split, ...]], train: EncodedSet | None = None, *, to_grow: bool = True
    ) -> None:
        """Both sets under the circuits after `history`: to grow on, round by round, for features to be what they were,
        on as many training examples as growth sees; else at once, on all. train: examples to train on from now on.

        Both share one budget by their examples: once growth sees all of them, the features of both are kept, or those
        of neither.
        """
        self.close()  # memory holds features once
        if train is not None:
            self.examples = train
        self.round, sets = 0 if to_grow else len(history), (self.examples, self._valid_examples)
        megabytes = self._settings.memory_budget
        holder = self._backend if self._engine is None else self._engine
        budget = holder.memory_budget() if megabytes is None else megabytes * 2**20
        n_train, n_valid = sizes = [len(examples.labels) for examples in sets]
        parts = self._initial if to_grow else parts_after(self._initial, history, self._settings.depth)
        n_seen = self._growth_size(parts, n_train) if to_grow else n_train
        self.train, self.valid = (
            self._objective(parts, examples, seen, budget * size // sum(sizes))
            for examples, size, seen in zip(sets, sizes, (n_seen, n_valid), strict=True)
        )
        rounds = history if to_grow else ()
        self.follow(apply_to_parts(self.parts, splits, self._settings.depth) for splits in rounds)

    def close(self) -> None:
        """Free the memory that features take."""
        for name in ("train", "valid"):
            self.__dict__.pop(name, None)

    def follow(self, rounds: Iterable[Sequence[GrownPart]]) -> None:
        """Follow the circuits through rounds of splits, after each of which growth may see more examples."""
        for grown in rounds:
            self.round += 1
            for objective in (self.train, self.valid):
                objective.features.grow(grown)
            self._see(self._growth_size(self.parts, len(self.examples.labels)))
        parametrisation = Parametrisation(self.parts, self._settings.literal_weights)
        for objective in (self.train, self.valid):
            objective.parametrisation = parametrisation

    def see_all(self) -> None:
        """Train on all training examples."""
        self._see(len(self.examples.labels))

    def join(self) -> None:
        """Train on all examples, those of validation too, whose features are not computed again."""
        self.see_all()
        train, valid = self.train.features, self.valid.features
        assert isinstance(train, FeatureStore)
        assert isinstance(valid, FeatureStore)
        train.join(valid)
        self.examples = self.examples.joined(self._valid_examples)
        self.train = self._over(train, self.examples, self.train.parametrisation)

    def bytes_not_kept(self) -> int:
        """What the features would take that are computed again at every reading, since memory does not hold them."""
        stores = (objective.features for objective in (self.train, self.valid))
        return sum(of.n_bytes for of in stores if isinstance(of, FeatureStore) and not of.is_in_memory)

    def _objective(self, parts: Sequence[Part], examples: EncodedSet, n_seen: int, budget: int) -> Objective:
        kept: Callable[..., Features] = partial(FeatureStore, n_examples=n_seen)
        if self._engine is not None:
            kept = partial(SpreadStore, self._engine)
        store = kept(
            parts,
            examples.values,
            self._backend,
            precision=self._settings.precision,
            budget=budget,
            most_features=self._most_features,
        )
        return self._over(store, examples)

    def _over(self, store: Features, examples: EncodedSet, given: Parametrisation | None = None) -> Objective:
        """The first of the examples, which the store holds, with the parametrisation given."""
        link, l2, n = self._settings.link, self._settings.l2, store.n_examples
        weights, labels = None if examples.weights is None else examples.weights[:n], examples.labels[:n]
        return Objective(
            store, labels, self._n_classes, link=link, l2=l2, example_weights=weights, parametrisation=given
        )

    def _growth_size(self, parts: Sequence[Part], n_examples: int) -> int:
        """How many of the training examples growth sees."""
        n_features = sum(part.n_features for part in parts)
        return sample_size(self._settings.growth_examples, n_features, n_examples, self._backend.chunk_examples)

    def _see(self, n_examples: int) -> None:
        """Train on the first `n_examples`, where they are more than before."""
        features = self.train.features
        if n_examples > features.n_examples:
            assert isinstance(features, FeatureStore)  # no engine's
            features.extend(n_examples)
            self.train = self._over(features, self.examples, self.train.parametrisation)
