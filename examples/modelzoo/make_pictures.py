"""Write pictures in the shape of tiny-imagenet, so that nothing is downloaded:  python make_pictures.py FOLDER

8 classes of 64×64, each with a colour: 32 pictures a class to train with, 8 to validate.
"""

import argparse
import random
from pathlib import Path

from PIL import Image

CLASSES, TRAIN, VALIDATE = 8, 32, 8


def main(folder: Path) -> None:
    draw = random.Random(0)
    for part, count in (("train", TRAIN), ("val", VALIDATE)):
        for kind in range(CLASSES):
            place = folder / part / f"n{kind:08}"
            place.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                colour = tuple(64 + 128 * (kind >> bit & 1) + draw.randrange(-40, 40) for bit in range(3))
                Image.new("RGB", (64, 64), colour).save(place / f"{number}.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write pictures in the shape of tiny-imagenet.")
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
