"""covering.py: few rows of settings in which every pair of values of two settings occurs."""

import itertools
import random


def pairs_of(row):
    return set(itertools.combinations(sorted(row.items()), 2))


def covering(settings, seed=1, tries=30):
    """Rows (dicts) over settings {key: [values]}: every pair of values of two keys is in some row. Greedy, from a fixed seed."""
    chance = random.Random(seed)
    keys = sorted(settings)
    missing = {
        pair
        for a, b in itertools.combinations(keys, 2)
        for pair in itertools.product([(a, v) for v in settings[a]], [(b, v) for v in settings[b]])
    }
    rows = []
    while missing:
        start = min(missing, key=repr)
        candidates = [
            dict({key: chance.choice(settings[key])
                  for key in keys}, **dict(start)) for _ in range(tries)
        ]
        best = max(candidates, key=lambda row: len(pairs_of(row) & missing))
        missing -= pairs_of(best)
        rows.append(best)
    return rows
