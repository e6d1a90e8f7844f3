"""Golden pictures that tolerate fonts: ``NBP_UPDATE_GOLDEN=1`` writes them anew.

``NBP_UPDATE_IMAGES=1`` writes those of ``docs/images`` anew.
"""

import io
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from PIL import Image, ImageFilter

REPOSITORY: Final = Path(__file__).parents[2]
GOLDEN: Final = Path(__file__).parent / "golden"
IMAGES: Final = REPOSITORY / "docs" / "images"
UPDATES_IMAGES: Final = bool(os.environ.get("NBP_UPDATE_IMAGES"))
takes_pictures = pytest.mark.skipif(not UPDATES_IMAGES, reason="only to take docs/images anew")
TOLERANCE: Final = 6.0
"""Mean difference of grey levels (0–255) after blurring away letters; a missing view gives 15 and more."""


def image_path(name: str) -> Path:
    """Where a picture of the documentation goes: into it only if that is asked."""
    folder = IMAGES if UPDATES_IMAGES else REPOSITORY / "test-output"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def compare(name: str, shoot: Callable[[], bytes]) -> None:
    """Take the picture until it looks as it should: a loaded machine draws late."""
    (REPOSITORY / "test-output").mkdir(exist_ok=True)
    until = time.monotonic() + 240
    while True:
        png = shoot()
        (REPOSITORY / "test-output" / f"{name}.png").write_bytes(png)
        drawn, golden = _shape(png), GOLDEN / f"{name}.png"
        if os.environ.get("NBP_UPDATE_GOLDEN"):
            GOLDEN.mkdir(exist_ok=True)
            Image.fromarray(drawn.astype(np.uint8)).save(golden, optimize=True)
        expected = np.asarray(Image.open(golden), float)
        difference = float(np.abs(drawn - expected).mean())
        if difference < TOLERANCE or time.monotonic() > until:
            break
        time.sleep(0.2)  # between two pictures
    assert difference < TOLERANCE, (
        f"{name} differs by {difference:.1f} grey levels: see test-output/{name}.png"
    )


def _shape(png: bytes) -> np.ndarray:
    """The picture small, grey and blurred: layout and colours remain, letters go."""
    image = Image.open(io.BytesIO(png)).convert("L").filter(ImageFilter.GaussianBlur(6))
    return np.asarray(image.resize((160, 110), Image.Resampling.BOX), float)
