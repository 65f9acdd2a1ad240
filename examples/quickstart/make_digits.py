"""Write scikit-learn's handwritten digits as an MNIST dataset on disk, where torchvision looks for it.

    python examples/quickstart/make_digits.py [ROOT] [--copies 4]          default: mnist

torchvision.datasets.MNIST(ROOT, download=True) then finds its files and downloads nothing: the quick start runs without
a network. The 1,797 images of 8x8 are shuffled once and scaled to 28x28. Every fifth goes to the test set; each of the
others is written four times, moved by one pixel, because 1,438 images are few for a network with no regularization.
Only numpy and scikit-learn are needed, torch is not.
"""

from __future__ import annotations

import argparse
import struct
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

SIZE = 28
SHIFTS = ((0, 0), (1, 1), (-1, 1), (1, -1))  # pixels down and right, for training only


def enlarge(images: np.ndarray, size: int) -> np.ndarray:
    """Bilinear, corner to corner: (n, 8, 8) → (n, size, size)."""
    old = images.shape[-1]
    position = np.linspace(0, old - 1, size)
    low = np.minimum(position.astype(int), old - 2)
    weights = np.zeros((size, old))
    weights[np.arange(size), low] = 1 - (position - low)
    weights[np.arange(size), low + 1] = position - low
    return weights @ images @ weights.T


def write_idx(path: Path, array: np.ndarray) -> None:
    """MNIST's raw format: zeros, the code of uint8, the number of dimensions, their sizes (big-endian), the bytes."""
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    path.write_bytes(header + array.astype(np.uint8).tobytes())


def make(root: Path, copies: int = len(SHIFTS)) -> tuple[int, int]:
    """Write the four files, with `copies` (1 to 4) of each training image; returns how many images train and test."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    images = enlarge(digits.images[order] / 16 * 255, SIZE).round()
    labels = digits.target[order]
    test = np.arange(len(images)) % 5 == 4
    train_images = np.concatenate([np.roll(images[~test], shift, axis=(1, 2)) for shift in SHIFTS[:copies]])
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    write_idx(folder / "train-images-idx3-ubyte", train_images)
    write_idx(folder / "train-labels-idx1-ubyte", np.tile(labels[~test], copies))
    write_idx(folder / "t10k-images-idx3-ubyte", images[test])
    write_idx(folder / "t10k-labels-idx1-ubyte", labels[test])
    return len(train_images), int(test.sum())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=Path("mnist"))
    parser.add_argument("--copies", type=int, choices=(1, 2, 3, 4), default=4, help="fewer train faster and learn less")
    options = parser.parse_args()
    root = options.root
    train_size, test_size = make(root, options.copies)
    print(f"wrote {train_size} training and {test_size} test images to {root / 'MNIST' / 'raw'}")
