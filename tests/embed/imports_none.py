"""A file whose own import fails."""

import there_is_no_such_module  # noqa: F401
