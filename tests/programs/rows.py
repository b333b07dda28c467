"""All rows by name: PACKAGE/PROGRAM/KIND."""

from programs import other_rows, transformers_rows, vision_rows

ROWS = transformers_rows.rows() | vision_rows.rows() | other_rows.rows()
