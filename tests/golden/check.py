#!/usr/bin/env python3
"""Compares what `dyno step` wrote with the golden vectors of a case.

    check.py OUTPUT.safetensors tests/golden/tiny [--worst 5]

Prints the relative errors ||ours - reference|| / ||reference|| of logits, losses, gradients and
weights, the worst first, and exits with 1 if one is past its limit, missing or of another shape,
with 2 if a file cannot be read. Where the reference is zero (queries and keys of a single token
have no gradient) the norm of ours itself has to stay within the limit.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

KINDS = {  # prefix of the tensor's name: (title, limit)
    "logits": ("logits", 1e-5),
    "loss": ("loss", 1e-5),
    "g": ("gradients", 1e-4),
    "w": ("weights", 1e-5),
}


def relative_error(ours: np.ndarray, reference: np.ndarray) -> float:
    scale = float(np.linalg.norm(reference.ravel()))
    difference = float(np.linalg.norm((ours.astype(np.float64) - reference).ravel()))
    return difference / (scale or 1.0)


def load(path: Path) -> dict[str, np.ndarray]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        print(f"cannot read {path}: {error}", file=sys.stderr)
        sys.exit(2)


def main() -> int:
    parser = argparse.ArgumentParser(description="`dyno step` against the golden vectors")
    parser.add_argument("output", type=Path, help="the file that `dyno step` wrote")
    parser.add_argument("case", type=Path, help="a directory of tests/golden")
    parser.add_argument("--worst", type=int, default=5, metavar="N",
                        help="tensors to list of each kind (default 5)")
    arguments = parser.parse_args()
    ours, expected = load(arguments.output), load(arguments.case / "expected.safetensors")

    problems = []
    errors: dict[str, list[tuple[float, str]]] = {kind: [] for kind in KINDS}
    for name, reference in expected.items():
        if name not in ours:
            problems.append(f"{name}: missing")
        elif ours[name].shape != reference.shape:
            problems.append(f"{name}: shape {ours[name].shape}, expected {reference.shape}")
        else:
            kind = name.partition(".")[0]
            errors[kind].append((relative_error(ours[name], reference), name))

    for kind, (title, limit) in KINDS.items():
        # NaN compares false with everything: count it as the worst.
        ranked = sorted(errors[kind], key=lambda e: np.inf if np.isnan(e[0]) else e[0],
                        reverse=True)
        bad = [name for error, name in ranked if not error <= limit]
        print(f"{title}: {len(ranked)} compared, {len(bad)} past the limit of {limit:g}")
        for error, name in ranked[: max(arguments.worst, 1)]:
            print(f"  {error:9.2e}  {name}")
        problems += [f"{name}: past the limit of {limit:g}" for name in bad]

    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
