"""Factoring: terms become layers of products with as few rows as possible.

1. Pairs: the pair of factors that most terms share becomes a new factor, again and again (as in byte-pair encoding),
   as long as enough terms share one. A factor is a product of at most 2^depth literals: the table of the program.
2. Long terms: two factors become one until few enough are left, since every further one is a layer of the chain.
3. Chains: the terms, now short sets of factors, become a trie, whose nodes are products of a node and a factor. At
   every node, the factor that most of the terms below share comes first.
"""

import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lcml_export.program import Products, Program
from lcml_export.reduction import TermSum

TABLE_DEPTH = 4
"""Factors of at most sixteen literals: more makes the table larger, fewer makes chains longer."""

MIN_SHARED = 2
"""A pair of factors that fewer terms share is left to the chains."""

MOST_FACTORS = 4
"""Of a term: a chain of three layers. A layer costs one example more than some products do."""


def factor(
    term_sum: TermSum,
    table_depth: int = TABLE_DEPTH,
    min_shared: int = MIN_SHARED,
    most_factors: int | None = MOST_FACTORS,
) -> Program:
    """The program of `term_sum`. table_depth: of factors that terms share; most_factors: of a term, None for any."""
    n_literals = 2 * term_sum.n_variables
    pairs = _Pairs([set(term) for term in term_sum.terms], n_literals, table_depth)
    pairs.run(min_shared)
    if most_factors is not None:
        pairs.shorten(most_factors)
    table, row_of = _table(pairs, n_literals)
    nodes, node_of_term = _trie([frozenset(row_of[factor] for factor in factors) for factors in pairs.terms])
    return _assemble(term_sum, table, nodes, node_of_term)


class _Pairs:
    """Terms as sets of factors; factors below n_literals are literals, the others are products of two factors."""

    def __init__(self, terms: list[set[int]], n_literals: int, max_depth: int) -> None:
        self.terms = terms
        self.products: dict[int, tuple[int, int]] = {}
        self.depth: dict[int, int] = defaultdict(int)
        self._n_literals, self._max_depth = n_literals, max_depth
        self._users: dict[int, set[int]] = defaultdict(set)
        for index, factors in enumerate(terms):
            for factor in factors:
                self._users[factor].add(index)

    def run(self, min_shared: int) -> None:
        """Introduce factors until no pair is shared by `min_shared` terms."""
        counts: Counter[tuple[int, int]] = Counter()
        for factors in self.terms:
            counts.update(combinations(sorted(factors), 2))
        heap = [(-count, pair) for pair, count in counts.items() if count >= min_shared]
        heapq.heapify(heap)
        while heap:
            count, (a, b) = heapq.heappop(heap)
            sharing = self._users[a] & self._users[b]
            outdated = len(sharing) != -count
            for entry in [(-len(sharing), (a, b))] if outdated else self._introduce(a, b, sharing):
                if -entry[0] >= min_shared:
                    heapq.heappush(heap, entry)

    def _introduce(self, a: int, b: int, sharing: set[int]) -> list[tuple[int, tuple[int, int]]]:
        """Replace a and b by a new factor in the terms `sharing`; the pairs that the new factor is in."""
        if max(self.depth[a], self.depth[b]) >= self._max_depth:
            return []
        product = self._product(a, b)
        self._users[a] -= sharing
        self._users[b] -= sharing
        self._users[product] = sharing
        companions: Counter[int] = Counter()
        for index in sharing:
            self.terms[index] -= {a, b}
            companions.update(self.terms[index])
            self.terms[index].add(product)
        return [(-count, (other, product)) for other, count in companions.items()]

    def shorten(self, most_factors: int) -> None:
        """Multiply the two shallowest factors of terms of more than `most_factors`, until none is left."""
        product_of = {pair: product for product, pair in self.products.items()}
        for factors in self.terms:
            while len(factors) > most_factors:
                a, b = sorted(sorted(factors, key=lambda factor: (self.depth[factor], factor))[:2])
                if (a, b) not in product_of:
                    product_of[a, b] = self._product(a, b)
                factors -= {a, b}
                factors.add(product_of[a, b])

    def _product(self, a: int, b: int) -> int:
        """The number of a new factor, their product."""
        product = self._n_literals + len(self.products)
        self.products[product], self.depth[product] = (a, b), 1 + max(self.depth[a], self.depth[b])
        return product


@dataclass(frozen=True)
class _Node:
    """A trie node: the product of its parent (-1: of nothing) and a table row."""

    parent: int
    row: int
    depth: int


def _table(pairs: _Pairs, n_literals: int) -> tuple[tuple[Products, ...], dict[int, int]]:
    """The table's layers, and the table row of every factor."""
    row_of = {literal: literal for literal in range(n_literals)}
    layers = []
    for depth in range(1, 1 + max(pairs.depth.values(), default=0)):
        members = [product for product in pairs.products if pairs.depth[product] == depth]
        wires = sorted((*sorted(row_of[factor] for factor in pairs.products[p]), p) for p in members)
        right, left, ordered = (np.array(column, dtype=np.int64) for column in zip(*wires, strict=True))
        layers.append(Products(left, right))
        row_of |= {product: len(row_of) + i for i, product in enumerate(ordered.tolist())}
    return tuple(layers), row_of


def _trie(terms: list[frozenset[int]]) -> tuple[list[_Node], dict[int, int]]:
    """The nodes, and the node of every term."""
    nodes: list[_Node] = []
    node_of_term: dict[int, int] = {}
    pending: list[tuple[int, int, dict[int, frozenset[int]]]] = [(-1, 0, dict(enumerate(terms)))]
    while pending:
        parent, depth, rest = pending.pop()
        node_of_term.update((index, parent) for index, rows in rest.items() if not rows)
        users: dict[int, set[int]] = defaultdict(set)
        for index, rows in rest.items():
            for row in rows:
                users[row].add(index)
        heap = [(-len(members), row) for row, members in users.items()]
        heapq.heapify(heap)
        while heap:
            count, row = heapq.heappop(heap)
            if len(users[row]) != -count:
                if users[row]:
                    heapq.heappush(heap, (-len(users[row]), row))
                continue
            below = {index: rest[index] - {row} for index in sorted(users[row])}
            for index in below:
                for other in rest[index]:
                    users[other].discard(index)
            pending.append((len(nodes), depth + 1, below))
            nodes.append(_Node(parent, row, depth))
    return nodes, node_of_term


def _assemble(
    term_sum: TermSum, table: tuple[Products, ...], nodes: list[_Node], node_of_term: dict[int, int]
) -> Program:
    """Order the trie's nodes by layers; its first level is the table itself."""
    by_depth: list[list[int]] = [[] for _ in range(1 + max(node.depth for node in nodes))]
    for number, node in enumerate(nodes):
        by_depth[node.depth].append(number)
    place = {number: nodes[number].row for number in by_depth[0]}
    parents = {node.parent for node in nodes}
    chain = []
    first = sorted(place.keys() & set(node_of_term.values()), key=place.__getitem__)
    column_of = {number: column for column, number in enumerate(first)}
    for members in by_depth[1:]:
        members.sort(key=lambda n: (n not in parents, place[nodes[n].parent], nodes[n].row))
        wires = np.array([(place[nodes[n].parent], nodes[n].row) for n in members], dtype=np.int64)
        chain.append(Products(wires[:, 0], wires[:, 1]))
        place.update((number, i) for i, number in enumerate(members))
        column_of |= {number: len(column_of) + i for i, number in enumerate(members)}
    weights = np.zeros((len(term_sum.bias), len(column_of)))
    for index, number in node_of_term.items():
        weights[:, column_of[number]] += term_sum.weights[:, index]
    table_features = np.array([nodes[number].row for number in first], dtype=np.int64)
    return Program(term_sum.n_variables, table, tuple(chain), table_features, weights, term_sum.bias)
