"""All rows by name: PACKAGE/PROGRAM/KIND."""

from programs import (
    example_rows,
    other_rows,
    probabilistic_rows,
    remedy_rows,
    transformers_rows,
    vision_rows,
)

PARTS = (
    transformers_rows,
    vision_rows,
    other_rows,
    probabilistic_rows,
    example_rows,
    remedy_rows,
)
ROWS = {name: maker for part in PARTS for name, maker in part.rows().items()}
