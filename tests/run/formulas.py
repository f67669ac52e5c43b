"""formulas.py: what a step moves and what states take, from the shapes of the parameters alone.

The rules, written down once more, apart from the program: a unit is the root or a block (or neighbouring blocks joined until they have
`min_parameters`); its trainable and its frozen parameters each have a flat buffer, every parameter rounded up to 256 elements; a rank's
shard is the N-th part of that, rounded up to the cut.

With Psi for the padded elements of all units and G slots, a rank receives (N-1)/N times

    stages 0-2   Psi gathered once, Psi reduced G times (sharded) or once          (G+1) Psi, or 2 Psi
    stage 3      every unit gathered twice a slot, reduced likewise               3 G Psi, or (2G+1) Psi

less what stays gathered between forward and backward: the root, and the prefetch + 1 units that forward leaves last, are gathered once
a slot, so stage 3 gathers G (2 Psi - Psi_root - Psi_last). Without reshard_after_forward every unit is gathered once.
"""

import fnmatch
import math
import re

BLOCK = 256  # elements; cuts and offsets are multiples


def round_up(n, multiple):
    return -(-n // multiple) * multiple


class Unit:
    def __init__(self, is_root):
        self.is_root, self.trainable, self.frozen = is_root, [], []  # elements of each parameter
        self.trains_input = False  # root: an embedding trains, so backward goes through all blocks


def units_of(shapes, patterns=("*", ), min_parameters=0):
    """The root first, then blocks in order. shapes: name -> dimensions."""
    root, blocks = Unit(True), {}
    for name, shape in shapes.items():
        match = re.search(r"(?:layers|h)\.(\d+)\.", name)
        unit = blocks.setdefault(int(match.group(1)), Unit(False)) if match else root
        is_trained = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        (unit.trainable if is_trained else unit.frozen).append(math.prod(shape))
        root.trains_input |= is_trained and bool(re.search(r"embed_tokens|wte|wpe", name))
    joined, held = [], 0
    for _, block in sorted(blocks.items()):
        size = sum(block.trainable) + sum(block.frozen)
        if joined and held < min_parameters:
            joined[-1].trainable += block.trainable
            joined[-1].frozen += block.frozen
            held += size
        else:
            joined.append(block)
            held = size
    if len(joined) > 1 and held < min_parameters:
        last = joined.pop()
        joined[-1].trainable += last.trainable
        joined[-1].frozen += last.frozen
    return [root, *joined]


class Sharding:
    """Elements of a rank's shards, and what follows from them."""
    def __init__(self, units, n_ranks, stage, parameter_bytes, is_trap=False, reshard=True,
                 prefetch=1):
        cut = max(BLOCK, 4096 // parameter_bytes) if is_trap and stage == 3 else BLOCK
        self.units, self.n_ranks, self.stage, self.parameter_bytes, self.reshard = units, n_ranks, stage, parameter_bytes, reshard
        self.prefetch = prefetch
        shard = lambda parameters: round_up(
            -(-sum(round_up(n, BLOCK) for n in parameters) // n_ranks), cut) if parameters else 0
        self.trainable = [shard(unit.trainable) for unit in units]
        self.frozen = [shard(unit.frozen) for unit in units]

    def _gathers(self, u):
        """Gathers of unit u a slot. Backward ends at the lowest unit that trains something; what lies below is used in forward only."""
        stays = not self.reshard or self.units[u].is_root or u >= len(
            self.units) - 1 - self.prefetch
        lowest = 0 if self.units[0].trains_input else next(
            (v for v in range(1, len(self.units)) if self.trainable[v]), len(self.units))
        return 1 if stays or u < lowest else 2

    def gather_bytes(self, n_slots):
        others = self.n_ranks - 1
        if self.stage == 0:
            return others * 4 * sum(self.trainable)
        if self.stage < 3:
            return others * self.parameter_bytes * sum(self.trainable)
        each = [
            self._gathers(u) * (self.trainable[u] + self.frozen[u]) for u in range(len(self.units))
        ]
        return others * n_slots * self.parameter_bytes * sum(each)

    def reduce_bytes(self, n_slots, is_sharded):
        return (self.n_ranks - 1) * 4 * sum(self.trainable) * (n_slots if is_sharded else 1)

    def states(self, is_sharded, n_moments=2):
        """Bytes of a rank: parameters, gradients, optimizer."""
        n, stage = self.n_ranks, self.stage
        mine, frozen = sum(self.trainable), sum(self.frozen)
        updated = mine * (n if stage == 0 else 1)
        parameters = (mine + frozen) * self.parameter_bytes * (1 if stage == 3 else n)
        gradients = 4 * mine if is_sharded and stage >= 2 else 4 * mine * n + (
            4 * mine if is_sharded else 0)
        low = 2 if self.parameter_bytes == 2 else 0
        return {
            "parameters": parameters, "gradients": gradients,
            "optimizer": updated * (4 * n_moments + low)
        }
